// The definitions of reduction kernels. Internal to ops.
#pragma once

#include <locus/ops/jit/definition.h>

namespace locus::jit {

struct ReductionTexts {
  std::string map, reduce, post_map, identity;
};

class ReductionDefinition final : public Definition {
 public:
  // The functions of the text, in their order. On the host: whole units, parts of a unit, the join
  // of parts, the size of a part.
  enum HostFunction { kUnits, kParts, kJoin, kPartBytes };

  // Throws ValueError.
  static const ReductionDefinition& of(const std::string& in, const std::string& out,
                                       const ReductionTexts& texts, const std::string& name,
                                       const KernelOptions& options);

  // The same kernel with a gradient. Throws ValueError if names do not match.
  const ReductionDefinition& with_gradient(const Definition& gradient) const;

  std::string text(const Specialization& s, bool gpu) const override;  // reduction_text.cc
  std::vector<std::string> functions(bool gpu) const override;
  void set(Op& op) const override;  // reduction_launch.cc

  const ReductionTexts texts;
  const std::vector<bool> sets_first;  // by parameter: outputs_set_by(post_map)

 private:
  ReductionDefinition(const std::string& of_kernel, const KernelOptions& with, Parameters all,
                      Traits traits, const ReductionTexts& t, GradientKernel gradient = {});
};

inline const ReductionDefinition& reduction_of(const Specialization& s) {
  return static_cast<const ReductionDefinition&>(s.definition);
}

}  // namespace locus::jit
