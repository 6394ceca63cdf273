// Words of generated kernels. Internal to ops/fuse.
#pragma once

#include <string>

#include <locus/ops/fuse/kernel.h>

namespace locus::fusion {

std::string storage(DType d);  // "Half"
std::string compute(DType d);  // "float"
// x0: an array's element, n0: a number, v0: a line's value, s0: a reduction's.
std::string word(const KernelBody::Operand& o);
// "const float v3 = fusion::apply<float>(...);"
std::string text_of_line(const KernelBody& body, size_t line);
std::string headers_of(const char* first, bool gpu);
// The struct of arguments. `first`: its first members.
std::string text_of_arguments(const KernelBody& body, const char* type, const std::string& first);
std::string constants_of(const KernelBody& body);  // names for the numbers and attributes of a

}  // namespace locus::fusion
