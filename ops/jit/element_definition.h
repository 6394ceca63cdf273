// The definitions of elementwise kernels. Internal to ops.
#pragma once

#include <locus/ops/jit/definition.h>

namespace locus::jit {

class ElementDefinition final : public Definition {
 public:
  // The definition of these texts; `out` is empty in PyCUDA's form. Throws ValueError.
  static const ElementDefinition& of(const std::string& in, const std::string& out,
                                     const std::string& body, const std::string& name,
                                     const KernelOptions& options, bool pointers);

  // The same kernel with a gradient. Throws ValueError if names do not match.
  const ElementDefinition& with_gradient(const Definition& gradient) const;

  std::string text(const Specialization& s, bool gpu) const override;  // element_text.cc
  std::vector<std::string> functions(bool gpu) const override;
  void set(Op& op) const override;  // element_launch.cc

  const std::string body;
  const bool indexed;                  // the body uses _ind
  const int64_t grain;                 // elements that a thread of the CPU computes at least
  const std::vector<bool> sets_first;  // by parameter: set_first()

 private:
  ElementDefinition(const std::string& of_kernel, const KernelOptions& with, Parameters all,
                    Traits traits, const std::string& text, GradientKernel gradient = {});
};

inline const ElementDefinition& definition_of(const Specialization& s) {
  return static_cast<const ElementDefinition&>(s.definition);
}
// The number of elements that a thread of the flat kernel computes.
int pack_of(const Specialization& s);

}  // namespace locus::jit
