#include <locus/ops/raw/module.h>

#include <algorithm>
#include <cctype>

#include <locus/core/device.h>
#include <locus/core/error.h>

namespace locus::raw {
namespace {

std::string key_of(const Module::Text& t) {
  std::string key;
  const auto add = [&key](const std::string& s) { key += text_of(s.size(), ' ', s); };
  for (const std::string* s : {&t.name, &t.text, &t.code}) add(*s);
  for (const auto* list : {&t.options.options, &t.options.name_expressions}) {
    key += text_of(list->size(), ' ');
    for (const std::string& s : *list) add(s);
  }
  for (const auto& [name, text] : t.options.headers) {
    add(name);
    add(text);
  }
  return key;
}

// The names, or what stands for none.
std::string or_none(const std::vector<std::string>& names) {
  return names.empty() ? "no kernels" : listed(names);
}

}  // namespace

bool is_identifier(std::string_view name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(name, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
         });
}

LaunchShape shape_of(const RawLaunch& l) {
  return {.grid = l.grid, .block = l.block, .shared = l.shared, .cooperative = l.cooperative};
}

const Module& Module::of(const Text& text) {
  struct All {
    Mutex mutex;
    std::map<std::string, std::unique_ptr<const Module>> by_text LOCUS_GUARDED_BY(mutex);
  };
  static All& all = *new All;  // never destroyed, as ops are
  const MutexLock lock(all.mutex);
  auto& found = all.by_text[key_of(text)];
  if (!found) found.reset(new Module(text));
  return *found;
}

Module::Module(const Text& text) : text_(text) {
  for (const auto& [name, header] : text_.options.headers)
    headers_.push_back({name.c_str(), header.c_str()});
  source_ = {.name = text_.name,
             .text = text_.text,
             .options = text_.options.options,
             .headers = headers_,
             .contract = true,
             .expressions = text_.options.name_expressions,
             .code = text_.code};
}

bool Module::has_expression(const std::string& name) const {
  return std::ranges::find(source_.expressions, name) != source_.expressions.end();
}

const Function& Module::get(const std::string& name, const std::string& signature) const {
  if (!is_identifier(name) && !has_expression(name))
    throw ValueError(
        source_.name, ": there is no kernel \"", name, "\"; expected a function that ",
        "is extern \"C\", or a name expression",
        source_.expressions.empty() ? "" : text_of(" (", listed(source_.expressions), ')'),
        "; list others in RawOptions::name_expressions");
  const MutexLock lock(mutex_);
  auto& found = functions_[{name, signature}];
  if (!found) try {
      found = std::make_unique<const Function>(*this, name, signature);
    } catch (...) {
      functions_.erase({name, signature});
      throw;
    }
  return *found;
}

const KernelProgram& Module::on(Context c, std::string_view who) const {
  if (device(c).kernels() != DeviceType::gpu)
    throw UnsupportedOnContext(who, ": kernels from CUDA C++ run on GPUs, and ", c,
                               c.type == DeviceType::gpu
                                   ? " is an emulated GPU, which runs code of the host"
                                   : " is no GPU",
                               "; an ElementwiseKernel runs on every context");
  {
    const MutexLock lock(mutex_);
    if (const auto found = programs_.find(c); found != programs_.end()) return *found->second;
  }
  const KernelProgram* const program = compile_program(c, source_);
  const MutexLock lock(mutex_);
  return *programs_.emplace(c, program).first->second;
}

KernelProgram::Global Module::global(Context c, std::string_view who,
                                     const std::string& name) const {
  const KernelProgram::Global found = on(c, who).global(name);
  if (found.data) return found;
  std::vector<std::string> variables;  // that have name expressions
  for (const std::string& e : source_.expressions)
    if (e.starts_with('&')) variables.push_back(e.substr(1));
  throw ValueError(who, ": ", source_.name, " has no variable \"", name, "\" on ", c,
                   "; expected a __constant__ or __device__ variable that is not static",
                   variables.empty() ? "" : text_of(", or of ", listed(variables)),
                   "; list one of a namespace in RawOptions::name_expressions: \"&", name, '"');
}

Function::Function(const Module& m, const std::string& n, const std::string& signature)
    : name(n), module_(m), signed_(!signature.empty()), signature_(parse_signature(n, signature)) {
  op_.name = name;
  op_.attrs_type = &typeid(Attrs);
  op_.infer = &infer;
  op_.n_out = Op::kAny;
  op_.in_place = true;
  op_.layout = Layout::strided;
  op_.no_gradient = "a kernel from source text has no gradient";
  op_.no_samples = "it is no op of the registry";
  op_.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] = &run;
}

const KernelFunction& Function::on(Context c) const {
  {
    const MutexLock lock(mutex_);
    if (const auto found = found_.find(c); found != found_.end()) return *found->second;
  }
  const KernelProgram& program = module_.on(c, name);
  const KernelFunction* const function = program.find(name);
  if (!function)
    throw ValueError(name, ": the module has no such kernel on ", c, "; it has ",
                     or_none(program.names()), "; expected extern \"C\" __global__ void ", name,
                     "(...), or a name in RawOptions::name_expressions");
  const MutexLock lock(mutex_);
  return *found_.emplace(c, function).first->second;
}

}  // namespace locus::raw
