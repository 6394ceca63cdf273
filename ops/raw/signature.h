// Signatures of raw kernels, and checks of launches that need no device. Internal to ops.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <locus/ops/raw_kernels.h>

namespace locus::raw {

struct Parameter {
  std::string text;  // as the user wrote it: "const float*"
  bool any = false;  // "?"
  bool pointer = false, constant = false;
  std::string type = {};  // "f32"; of a pointer to any type: ""
};

// "const f32*, float* i32": types between blanks or commas. "long long" is one type. Errors are
// ValueErrors that begin with `who`.
std::vector<Parameter> parse_signature(std::string_view who, std::string_view text);
// Throws ValueError for another number of arguments, DTypeError for one of another type.
void check_signature(std::string_view who, std::span<const Parameter> signature,
                     std::span<const RawArg> args);

// Throws ValueError for a shape that no GPU launches.
void check_shape(std::string_view who, const LaunchShape& shape);
// Throws ValueError or UnsupportedOnContext if the function cannot be launched in this shape.
void check_shape(std::string_view who, const LaunchShape& shape, const KernelFunction& f,
                 Context c);
// Throws ValueError unless the arguments have the parameters' number and sizes.
void check_sizes(std::string_view who, std::span<const RawArg> args,
                 std::span<const size_t> parameters);

// "2 (i32, 4 bytes)", "0 (gpu(0) (2,3) f32)": how errors name an argument.
std::string described(std::span<const RawArg> args, size_t i);

}  // namespace locus::raw
