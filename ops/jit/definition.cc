#include <locus/ops/jit/definition.h>

#include <algorithm>
#include <utility>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/ops/kernel/source.h>

namespace locus::jit {
namespace {

using Types = std::vector<Specialization::Type>;
using Tokens = std::vector<std::string>;

constexpr uint8_t kNothing = 0xff, kNumber = 0x40;

// Macros may read an output where the body does not name it.
bool may_have_macros(const KernelOptions& options) {
  return options.preamble.find('#') != std::string::npos || !options.cpu_options.empty() ||
         !options.options.empty();
}

// Tokens that the body has, and those of macros that it may use.
Tokens used(const std::string& body, const KernelOptions& options) {
  Tokens tokens = tokens_of(body);
  if (options.preamble.find('#') != std::string::npos) {  // it may have macros
    const Tokens more = tokens_of(options.preamble);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

bool any_written_raw(const Parameters& all) {
  return std::ranges::any_of(all, [](const Parameter& p) { return p.raw && p.written; });
}

// A body with a loop may take long, one with calls takes tens of cycles.
int64_t grain_of(const Tokens& tokens) {
  if (names(tokens, "for") || names(tokens, "while")) return 64;
  return names(tokens, "(") ? 4096 : 32768;
}

void set_op(Op& op, const Definition& d) {
  op.name = d.name;
  op.attrs_type = &typeid(Attrs);
  op.infer = &infer;
  op.no_gradient = "a kernel from source text has no gradient";
  op.no_samples = "it is no op of the registry";
  op.kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(f32)] = &run_host;
  op.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] = &run_gpu;
}

// Of numbers alone: f32, i64 or bool, by the highest kind.
DType of_numbers(Scalar::Kind kind) {
  return kind == Scalar::Kind::floating ? f32 : kind == Scalar::Kind::integer ? i64 : bool_;
}

}  // namespace

Specialization::Specialization(const Definition& d, const Types& t) : definition(d), types(t) {
  set_op(value, d);
  set_op(into, d);
  const Parameters& all = d.parameters;
  for (size_t k = 0; k < all.size(); ++k) {
    if (types[k].number) continue;
    into.arguments.push_back(all[k].name);
    if (k < d.inputs) value.arguments.push_back(all[k].name);
  }
  value.n_out = static_cast<int>(all.size() - d.inputs);
  value.layout = d.ordered ? Layout::rows : Layout::strided;
  into.n_out = Op::kAny;
  into.in_place = true;
  into.layout = Layout::strided;
}

const Specialization::Functions& Specialization::functions(Context c) const {
  const DeviceType kind = device(c).kernels();
  if (kind != DeviceType::cpu && (kind != DeviceType::gpu || c.type != DeviceType::gpu))
    throw UnsupportedOnContext(definition.name,
                               ": kernels from source text run on cpu and gpu "
                               "contexts, not on ",
                               c);
  auto& at = kind == DeviceType::cpu ? host_ : gpu_[c.index];
  const Functions* const made = at.load(std::memory_order_acquire);
  return made ? *made : build(c, at);
}

const Specialization::Functions& Specialization::build(Context c,
                                                       std::atomic<const Functions*>& at) const {
  const Definition& d = definition;
  const bool gpu = &at != &host_;
  ProgramSource source{.name = d.name,
                       .text = text(gpu),
                       .functions = {},
                       .options = gpu ? d.options.options : d.options.cpu_options,
                       .headers = formula_source(),
                       .contract = true};
  // On GPUs all functions of the text are device code. On the host integers wrap.
  source.options.insert(source.options.begin(), gpu ? "-default-device" : "-fwrapv");
  const std::string loop = d.name + "_loop", flat = d.name + "_flat", strided = d.name + "_strided";
  if (!gpu)
    source.functions = {loop};
  else if (d.indexed)
    source.functions = {strided};
  else
    source.functions = {flat, strided};
  const KernelProgram& program = *compile_program(c, source);
  auto made = std::make_unique<const Functions>(
      Functions{program.find(loop), program.find(flat), program.find(strided)});
  const Functions* before = nullptr;  // of another thread
  if (!at.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}

struct Definition::Text {
  std::string in, out, body, name;
  KernelOptions options;
  bool pointers;

  std::string key() const {
    std::string all = pointers ? "p" : "e";
    const auto add = [&all](const std::string& s) { all += text_of(s.size(), ' ', s); };
    for (const std::string* s : {&in, &out, &body, &name, &options.preamble}) add(*s);
    all += text_of(options.options.size(), ' ');
    for (const std::string& s : options.options) add(s);
    for (const std::string& s : options.cpu_options) add(s);
    return all;
  }
};

const Definition& Definition::of(const std::string& in, const std::string& out,
                                 const std::string& body, const std::string& name,
                                 const KernelOptions& options, bool pointers) {
  struct All {
    Mutex mutex;
    std::map<std::string, std::unique_ptr<const Definition>> by_text LOCUS_GUARDED_BY(mutex);
  };
  static All& all = *new All;  // never destroyed, as ops are
  const Text text{in, out, body, name, options, pointers};
  const std::string key = text.key();
  const MutexLock lock(all.mutex);
  auto& found = all.by_text[key];
  if (found) return *found;
  try {
    check_kernel_name(name);
    const std::string who = "ElementwiseKernel " + name;
    Parameters parameters = pointers ? parse_pointers(who, in) : parse_parameters(who, in, false);
    if (!pointers)
      for (Parameter& p : parse_parameters(who, out, true)) parameters.push_back(std::move(p));
    check_names(who, parameters);
    if (std::ranges::none_of(parameters, &Parameter::written))
      throw ValueError(who, ": has no output; expected one or more ",
                       pointers ? "pointers without const" : "parameters in the second list");
    found.reset(new Definition(text, std::move(parameters)));
    return *found;
  } catch (...) {
    all.by_text.erase(key);
    throw;
  }
}

Definition::Definition(const Text& text, Parameters all)
    : name(text.name),
      body(text.body),
      options(text.options),
      parameters(std::move(all)),
      inputs(text.pointers
                 ? parameters.size()
                 : static_cast<size_t>(std::ranges::count(parameters, false, &Parameter::written))),
      pointers(text.pointers),
      raw_outputs(any_written_raw(parameters)),
      indexed(names(used(body, options), "_ind")),
      ordered(indexed || raw_outputs || names(used(body, options), "i")),
      grain(grain_of(used(body, options))),
      sets_first(may_have_macros(options) ? std::vector<bool>(parameters.size())
                                          : set_first(tokens_of(body), parameters)) {}

std::string Definition::described(size_t begin, size_t end) const {
  return listed(std::span(parameters).subspan(begin, end - begin), &Parameter::text);
}

const Specialization& Definition::find(const Operands& operands) const {
  Key key;
  key.fill(kNothing);
  for (size_t k = 0; k < parameters.size(); ++k)
    if (operands.tensor[k])
      key[k] = static_cast<uint8_t>(operands.tensor[k]->dtype());
    else if (operands.number[k])
      key[k] = static_cast<uint8_t>(kNumber | static_cast<int>(operands.number[k]->kind()));
  const Last* const last = last_.load(std::memory_order_acquire);
  if (last && last->key == key) [[likely]]
    return *last->made;
  {
    const MutexLock lock(mutex_);
    if (const auto found = by_operands_.find(key); found != by_operands_.end()) {
      last_.store(found->second.get(), std::memory_order_release);
      return *found->second->made;
    }
  }
  const Specialization& made = of_types(types_of(operands));
  const MutexLock lock(mutex_);
  auto& at = by_operands_[key];
  if (!at) at = std::make_unique<const Last>(Last{key, &made});
  last_.store(at.get(), std::memory_order_release);
  return made;
}

const Specialization& Definition::of_types(const Types& types) const {
  std::string key;
  for (const Specialization::Type& t : types)
    key += static_cast<char>(static_cast<int>(t.dtype) | (t.number ? kNumber : 0));
  const MutexLock lock(mutex_);
  auto& made = made_[key];
  if (!made) made = std::make_unique<const Specialization>(*this, types);
  return *made;
}

Types Definition::types_of(const Operands& operands) const {
  Types types(parameters.size());
  std::map<std::string, std::pair<DType, size_t>> letters;  // a parameter that has the dtype
  size_t numbers = 0;
  // Given outputs, then inputs.
  for (const bool written : {true, false})
    for (size_t k = 0; k < parameters.size(); ++k) {
      const Parameter& p = parameters[k];
      if (p.written != written) continue;
      const Tensor* const t = operands.tensor[k];
      if (operands.number[k]) {
        types[k].number = true;
        ++numbers;
        if (p.raw || p.written)
          throw ValueError(name, ": ", p.name, " is a number; expected a tensor for \"", p.text,
                           '"');
      } else if (!t) {
        if (p.raw)
          throw ValueError(name, ": the output \"", p.text,
                           "\" is raw and is not made; give it: kernel.into({...}, {", p.name,
                           "})");
      } else if (p.letter.empty()) {
        if (pointers && !p.pointer)
          throw ValueError(name, ": ", p.name, " is a tensor; expected a number for \"", p.text,
                           '"');
        if (t->dtype() != p.dtype)
          throw DTypeError(name, ": ", p.name, " ", describe(*t), ": expected ",
                           locus::name(p.dtype), " for \"", p.text, "\"; convert it: ", p.name,
                           ".astype(", p.dtype == bool_ ? "bool_" : locus::name(p.dtype), ")");
      } else {
        const auto [found, first] = letters.try_emplace(p.letter, t->dtype(), k);
        if (!first && found->second.first != t->dtype())
          throw DTypeError(name, ": ", p.letter, " is ", locus::name(found->second.first), " (",
                           parameters[found->second.second].name, ") and ", locus::name(t->dtype()),
                           " (", p.name, "); expected one dtype; convert one with astype()");
      }
    }
  if (numbers > kMostNumbers)
    throw ValueError(name, ": ", numbers, " numbers; expected at most ", kMostNumbers);
  // Letters that no tensor decides.
  std::map<std::string, Scalar::Kind> kinds;
  for (size_t k = 0; k < parameters.size(); ++k) {
    const std::string& letter = parameters[k].letter;
    if (!operands.number[k] || letter.empty() || letters.contains(letter)) continue;
    auto& kind = kinds.try_emplace(letter, Scalar::Kind::boolean).first->second;
    kind = std::max(kind, operands.number[k]->kind());
  }
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Parameter& p = parameters[k];
    if (p.letter.empty())
      types[k].dtype = p.dtype;
    else if (const auto found = letters.find(p.letter); found != letters.end())
      types[k].dtype = found->second.first;
    else if (const auto kind = kinds.find(p.letter); kind != kinds.end())
      types[k].dtype = of_numbers(kind->second);
    else
      throw DTypeError(name, ": the dtype ", p.letter, " of \"", p.text,
                       "\" is not known: no operand has it; give the output, or write a dtype "
                       "instead of the letter");
  }
  return types;
}

}  // namespace locus::jit
