// The grammar of user kernels: lists of parameters, names, and what a body uses. Internal to ops.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/dtype.h>

namespace locus::jit {

inline constexpr size_t kMostOperands = 24, kMostNumbers = 16;
// The end of errors of an ElementwiseKernel with fewer texts.
inline constexpr const char* kFourTexts =
    "a kernel with inputs and outputs takes four texts: inputs, outputs, body, name";

struct Parameter {
  std::string name;
  std::string text;    // as the user wrote it: "raw T x"
  std::string letter;  // that stands for the type; "": dtype is the type
  DType dtype = f32;
  bool raw = false;      // the whole tensor; pointers, too
  bool pointer = false;  // of PyCUDA's form
  bool written = false;

  bool array() const { return !raw; }  // or a number
};
using Parameters = std::vector<Parameter>;

// "[raw] TYPE NAME, ...". Errors are ValueErrors that begin with `who`.
Parameters parse_parameters(std::string_view who, std::string_view list, bool outputs);
// "[const] TYPE *NAME, TYPE NAME, ...".
Parameters parse_pointers(std::string_view who, std::string_view list);
// The dtype of a name: "float32" is f32.
std::optional<DType> dtype_named(std::string_view type);
// Names of the kernel's parameters: distinct, not a letter, not `taken` by what the kernel has
// itself.
void check_names(std::string_view who, const Parameters& parameters,
                 std::initializer_list<std::string_view> taken);
// "sqdiff" is a kernel's name, "1" and "while" are not. Throws ValueError. `type`: of the kernel.
// `texts`: the end of the error, about the texts that such a kernel takes.
void check_kernel_name(std::string_view type, std::string_view name, std::string_view texts = "");

// Identifiers, numbers and operators of C++ text, without comments and literals' contents.
std::vector<std::string> tokens_of(std::string_view text);
bool names(const std::vector<std::string>& tokens, std::string_view word);
// Whether code of these tokens may compute with integers: it names such a type, or an element's
// number.
bool has_integers(const std::vector<std::string>& tokens);
// Throws ValueError if a bracket of `text`, `part` of the kernel, has no partner, because the
// compiler's message would be about generated code.
void check_brackets(std::string_view who, std::string_view part, std::string_view text,
                    std::string_view preamble);
// Throws ValueError if `text`, `part` of the kernel, names an output nowhere.
void check_outputs(std::string_view who, const Parameters& all, std::string_view part,
                   std::string_view text, std::string_view preamble);
// Tokens that the body has, and those of macros in the preamble.
std::vector<std::string> used(std::string_view body, std::string_view preamble);
// Those of the outputs that the body sets before it reads them, whatever happens.
std::vector<bool> set_first(const std::vector<std::string>& body, const Parameters& parameters);

}  // namespace locus::jit
