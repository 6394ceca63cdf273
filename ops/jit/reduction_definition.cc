#include <locus/ops/jit/reduction_definition.h>

#include <algorithm>
#include <utility>

#include <locus/core/error.h>

namespace locus::jit {

const ReductionDefinition& ReductionDefinition::of(const std::string& in, const std::string& out,
                                                   const ReductionTexts& texts,
                                                   const std::string& name,
                                                   const KernelOptions& options) {
  const auto make = [&] {
    check_kernel_name(
        "ReductionKernel", name,
        "a ReductionKernel takes seven texts: inputs, outputs, map, reduce, post_map, "
        "identity, name");
    const std::string who = "ReductionKernel " + name;
    Parameters all = parse_parameters(who, in, false), outputs = parse_parameters(who, out, true);
    if (std::ranges::all_of(all, &Parameter::raw))
      throw ValueError(who, ": the inputs \"", in,
                       "\" have none that is not raw; expected one, whose axes are reduced");
    if (outputs.empty())
      throw ValueError(who, ": has no output; expected one or more parameters in the second list");
    for (Parameter& p : outputs) {
      if (p.raw)
        throw ValueError(who, ": the output \"", p.text,
                         "\" is raw; expected \"TYPE NAME\": outputs have the reduced shape");
      all.push_back(std::move(p));
    }
    check_names(who, all, {"a", "b", "i", "n"});
    for (const auto& [text, part] : {std::pair(&texts.map, "map"), {&texts.reduce, "reduce"}})
      if (tokens_of(*text).empty())
        throw ValueError(who, ": the ", part, " text is empty; expected an expression, such as ",
                         part == std::string_view("map") ? all[0].name : "a + b");
    for (const auto& [text, part] : {std::pair(&texts.map, "the map text"),
                                     {&texts.reduce, "the reduce text"},
                                     {&texts.post_map, "the post-map"},
                                     {&texts.identity, "the identity"}})
      check_brackets(who, part, *text, options.preamble);
    check_outputs(who, all, "the post-map", texts.post_map, options.preamble);
    const std::string everything = listed(
        std::vector{options.preamble, texts.map, texts.reduce, texts.post_map, texts.identity},
        [](const std::string& s) { return s; }, " ");
    const Traits traits{false, true, names(used(texts.map, options.preamble), "i"),
                        has_integers(tokens_of(everything))};
    return std::unique_ptr<const Definition>(
        new ReductionDefinition(name, options, std::move(all), traits, texts));
  };
  return static_cast<const ReductionDefinition&>(Definition::of(
      key_of('r', {in, out, texts.map, texts.reduce, texts.post_map, texts.identity, name},
             options),
      make));
}

ReductionDefinition::ReductionDefinition(const std::string& of_kernel, const KernelOptions& with,
                                         Parameters all, Traits traits, const ReductionTexts& t,
                                         GradientKernel gradient)
    : Definition(of_kernel, with, std::move(all), traits, std::move(gradient)),
      texts(t),
      sets_first(outputs_set_by(t.post_map + ';')) {}

const ReductionDefinition& ReductionDefinition::with_gradient(const Definition& gradient) const {
  const auto make = [&] {
    return std::unique_ptr<const Definition>(
        new ReductionDefinition(name, options, parameters, {pointers, scatters, ordered, integers},
                                texts, matched(gradient)));
  };
  return static_cast<const ReductionDefinition&>(Definition::of(key_with(gradient), make));
}

std::vector<std::string> ReductionDefinition::functions(bool gpu) const {
  if (gpu) return {name + "_reduce"};
  return {name + "_units", name + "_parts", name + "_join", name + "_part_bytes"};
}

}  // namespace locus::jit
