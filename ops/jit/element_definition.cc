#include <locus/ops/jit/element_definition.h>

#include <algorithm>
#include <utility>

#include <locus/core/error.h>

namespace locus::jit {
namespace {

bool any_written_raw(const Parameters& all) {
  return std::ranges::any_of(all, [](const Parameter& p) { return p.raw && p.written; });
}

// A body with a loop may take long, one with calls takes tens of cycles.
int64_t grain_of(const std::vector<std::string>& tokens) {
  if (names(tokens, "for") || names(tokens, "while")) return 64;
  return names(tokens, "(") ? 4096 : 32768;
}

}  // namespace

const ElementDefinition& ElementDefinition::of(const std::string& in, const std::string& out,
                                               const std::string& body, const std::string& name,
                                               const KernelOptions& options, bool pointers) {
  const auto make = [&] {
    check_kernel_name("ElementwiseKernel", name, kFourTexts);
    const std::string who = "ElementwiseKernel " + name;
    Parameters all = pointers ? parse_pointers(who, in) : parse_parameters(who, in, false);
    if (!pointers)
      for (Parameter& p : parse_parameters(who, out, true)) all.push_back(std::move(p));
    check_names(who, all, {"i", "n"});
    if (std::ranges::none_of(all, &Parameter::written))
      throw ValueError(who, ": has no output; expected one or more ",
                       pointers ? text_of("pointers without const; ", kFourTexts)
                                : "parameters in the second list");
    if (!options.reduce_type.empty())
      throw ValueError(who, ": has the reduce type ", options.reduce_type,
                       "; expected none, or a ReductionKernel");
    const bool raw = any_written_raw(all);
    const auto tokens = used(body, options.preamble);
    check_brackets(who, "the body", body, options.preamble);
    if (!pointers) check_outputs(who, all, "the body", body, options.preamble);
    const Traits traits{pointers, raw, raw || names(tokens, "_ind") || names(tokens, "i"),
                        has_integers(tokens_of(options.preamble + ' ' + body))};
    return std::unique_ptr<const Definition>(
        new ElementDefinition(name, options, std::move(all), traits, body));
  };
  return static_cast<const ElementDefinition&>(
      Definition::of(key_of(pointers ? 'p' : 'e', {in, out, body, name}, options), make));
}

ElementDefinition::ElementDefinition(const std::string& of_kernel, const KernelOptions& with,
                                     Parameters all, Traits traits, const std::string& text,
                                     GradientKernel gradient)
    : Definition(of_kernel, with, std::move(all), traits, std::move(gradient)),
      body(text),
      indexed(names(used(body, options.preamble), "_ind")),
      grain(grain_of(used(body, options.preamble))),
      sets_first(outputs_set_by(body)) {}

const ElementDefinition& ElementDefinition::with_gradient(const Definition& gradient) const {
  const auto make = [&] {
    return std::unique_ptr<const Definition>(
        new ElementDefinition(name, options, parameters, {pointers, scatters, ordered, integers},
                              body, matched(gradient)));
  };
  return static_cast<const ElementDefinition&>(Definition::of(key_with(gradient), make));
}

std::vector<std::string> ElementDefinition::functions(bool gpu) const {
  if (!gpu) return {name + "_loop"};
  if (indexed) return {name + "_strided"};
  return {name + "_strided", name + "_flat"};
}

}  // namespace locus::jit
