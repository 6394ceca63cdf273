// Prints the ops of this build: names, signatures, dtypes, gradients; and its contexts.
//   list_ops              all functions that have names
//   list_ops softmax      one function in detail
//   list_ops --json       all, for programs
//   list_ops --markdown   the table of kernels in ops/README.md
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <locus/locus.h>
#include <CLI/CLI.hpp>

#include "common/command.h"

using namespace locus;

namespace {

std::string joined(const std::vector<DType>& dtypes) {
  std::string names;
  for (const DType d : dtypes) names += fmt::format("{}{}", names.empty() ? "" : " ", name(d));
  return names;
}

// A type of device whose dtypes are those of the type before it is left out.
std::string dtypes(const ops::Info& info) {
  std::string text, last;
  for (const auto& [type, list] : info.dtypes) {
    const std::string names = joined(list);
    if (names != last && !text.empty()) text += fmt::format("; {}: ", device_type_name(type));
    if (names != last) text += names;
    last = names;
  }
  return text;
}

void list_contexts(const std::vector<Context>& all) {
  std::cout << fmt::format("\n{:10}  {}\n", "context", "hardware");
  for (const Context c : all) {
    const ContextInfo info = context_info(c);
    std::cout << fmt::format("{:10}  {}{}\n", to_string(c), info.name,
                             info.emulated ? ", emulated" : "");
  }
}

void list_functions() {
  size_t width = 0;
  const std::vector<ops::Info> all = ops::list();
  for (const ops::Info& info : all) width = std::max(width, dtypes(info).size());
  const auto row = [width](auto gradient, auto capture, auto results, auto dtypes, auto signature) {
    std::cout << fmt::format("{:8}  {:7}  {:>7}  {:{}}  {}\n", gradient, capture, results, dtypes,
                             width, signature);
  };
  row("gradient", "capture", "results", "dtypes", "signature");
  for (const ops::Info& info : all)
    if (!info.internal)
      row(info.no_gradient.empty() ? "yes" : "no", info.no_capture.empty() ? "yes" : "no",
          info.results > 0 ? std::to_string(info.results) : "any", dtypes(info), info.signature);
}

void describe_function(const ops::Info& info) {
  std::cout << fmt::format("{}\n", info.signature);
  const auto row = [](auto title, const auto& text) {
    std::cout << fmt::format("  {:12}  {}\n", title, text);
  };
  const char* title = "attributes";
  for (const ops::AttributeInfo& a : info.attributes) {
    row(title, fmt::format("{}: {}, {}", a.name, a.type,
                           a.fallback.empty() ? "required" : "default " + a.fallback));
    title = "";
  }
  if (!info.aliases.empty()) row("other names", fmt::format("{}", fmt::join(info.aliases, ", ")));
  row("results", info.results > 0 ? std::to_string(info.results) : "any number");
  row("made of", info.made_of.empty() ? "no op" : fmt::format("{}", fmt::join(info.made_of, ", ")));
  for (const auto& [type, list] : info.dtypes)
    row(fmt::format("on {}", device_type_name(type)), joined(list));
  row("gradient", info.no_gradient.empty() ? "yes" : "no: " + info.no_gradient);
  row("capture", info.no_capture.empty() ? "yes" : "no: " + info.no_capture);
}

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text)
    all += (c == '"' || c == '\\') ? fmt::format("\\{}", c) : fmt::format("{}", c);
  return all + '"';
}
std::string json_list(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string json(const ops::Info& info) {
  std::vector<std::string> attributes, aliases, made_of, types;
  for (const ops::AttributeInfo& a : info.attributes)
    attributes.push_back(fmt::format(R"({{"name": {}, "type": {}, "default": {}}})", quoted(a.name),
                                     quoted(a.type),
                                     a.fallback.empty() ? "null" : quoted(a.fallback)));
  for (const std::string& s : info.aliases) aliases.push_back(quoted(s));
  for (const std::string& s : info.made_of) made_of.push_back(quoted(s));
  for (const auto& [type, list] : info.dtypes) {
    std::vector<std::string> names;
    for (const DType d : list) names.push_back(quoted(name(d)));
    types.push_back(fmt::format("{}: {}", quoted(device_type_name(type)), json_list(names)));
  }
  return fmt::format(
      R"({{"name": {}, "signature": {}, "aliases": {}, "attributes": {}, "made_of": {}, )"
      R"("dtypes": {{{}}}, "results": {}, "no_gradient": {}, "no_capture": {}, "internal": {}}})",
      quoted(info.name), quoted(info.signature), json_list(aliases), json_list(attributes),
      json_list(made_of), fmt::join(types, ", "), info.results, quoted(info.no_gradient),
      quoted(info.no_capture), info.internal);
}

std::string kernels(const Op& op) {
  if (op.make_view != nullptr) return "the same memory";
  if (op.function != nullptr) return "from context to context";
  const auto of = [&](DeviceType type) {
    std::vector<DType> list;
    for (int d = 0; d < kNumDTypes; ++d)
      if (op.kernel(type, static_cast<DType>(d))) list.push_back(static_cast<DType>(d));
    return joined(list);
  };
  const std::string cpu = of(DeviceType::cpu), gpu = of(DeviceType::gpu);
  if (gpu.empty() || gpu == cpu) return cpu;  // a build without CUDA lists only the CPU's dtypes
  return cpu + "; on GPUs " + gpu;
}

// Ops of the registry. Those with equal kernels share a row.
void list_markdown() {
  std::map<std::string, std::string> rows;
  for (const Op* op : all_ops()) {
    if (op->needs_peers) continue;  // one device's part of another op
    std::string& names = rows[kernels(*op) + " | " + (op->gradient != nullptr ? "yes" : "no")];
    names += (names.empty() ? "" : ", ") + op->name;
  }
  std::cout << fmt::format("| ops | dtypes | gradient |\n|---|---|---|\n");
  for (const auto& [kernels, names] : rows)
    std::cout << fmt::format("| {} | {} |\n", names, kernels);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prints the ops and the contexts of this build.");
  std::string op;
  bool as_json = false, as_markdown = false;
  app.add_option("op", op, "print this function in detail");
  CLI::Option* const to_json = app.add_flag("--json", as_json, "print all as JSON");
  app.add_flag("--markdown", as_markdown, "print the table of kernels of ops/README.md")
      ->excludes(to_json);
  if (const auto status = examples::parse(app, argc, argv)) return *status;
  try {
    std::vector<Context> contexts = gpus(num_gpus());
    contexts.insert(contexts.begin(), cpu());
    if (as_markdown) {
      list_markdown();
    } else if (as_json) {
      std::vector<std::string> all;
      for (const ops::Info& info : ops::list()) all.push_back(json(info));
      std::cout << fmt::format("[{}]\n", fmt::join(all, ",\n"));
    } else if (!op.empty()) {
      describe_function(ops::get(op));
    } else {
      list_functions();
      list_contexts(contexts);
    }
    examples::check_printed();
  } catch (const std::exception& e) {
    std::cerr << "list_ops: " << e.what() << '\n';
    return 1;
  }
}
