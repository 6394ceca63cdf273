#include <locus/ops/jit/definition.h>

#include <algorithm>
#include <utility>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/ops/kernel/source.h>

namespace locus::jit {
namespace {

using Types = std::vector<Specialization::Type>;

constexpr uint8_t kNothing = 0xff, kNumber = 0x40;

void set_op(Op& op, const Definition& d) {
  op.name = d.name;
  op.attrs_type = &typeid(Attrs);
  op.no_gradient =
      "a kernel from source text has no gradient of itself; name a kernel that computes it: "
      "kernel.with_gradient(gradient)";
  op.no_samples = "it is no op of the registry";
  d.set(op);
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
  d.set_gradient(value, *this);
  value.n_out = static_cast<int>(all.size() - d.inputs);
  value.layout = d.ordered || d.scatters ? Layout::rows : Layout::strided;
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
  std::vector<std::string> first = {gpu ? "-default-device" : "-fwrapv"};
  // float(int(-0.5f)) is 0. Without trapping math, with which loops are not vectorized, g++ 12
  // makes trunc(-0.5f) of it, which is -0.
  if (!gpu && (d.integers ||
               std::ranges::any_of(types, [](const Type& t) { return !is_floating(t.dtype); })))
    first.emplace_back("-ftrapping-math");
  source.options.insert(source.options.begin(), first.begin(), first.end());
  source.functions = d.functions(gpu);
  const KernelProgram& program = *compile_program(c, source);
  Functions found = {};
  for (size_t f = 0; f < source.functions.size(); ++f) found[f] = program.find(source.functions[f]);
  auto made = std::make_unique<const Functions>(found);
  const Functions* before = nullptr;  // of another thread
  if (!at.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}

std::string Specialization::text(bool gpu) const { return definition.text(*this, gpu); }

std::string Definition::key_of(char form, std::initializer_list<std::string_view> texts,
                               const KernelOptions& options) {
  std::string all(1, form);
  const auto add = [&all](std::string_view s) { all += text_of(s.size(), ' ', s); };
  for (const std::string_view s : texts) add(s);
  add(options.preamble);
  add(options.reduce_type);
  all += text_of(options.options.size(), ' ');
  for (const std::string& s : options.options) add(s);
  for (const std::string& s : options.cpu_options) add(s);
  return all;
}

const Definition& Definition::of(const std::string& key,
                                 const std::function<std::unique_ptr<const Definition>()>& make) {
  struct All {
    Mutex mutex;
    std::map<std::string, std::unique_ptr<const Definition>> by_text LOCUS_GUARDED_BY(mutex);
  };
  static All& all = *new All;  // never destroyed, as ops are
  const MutexLock lock(all.mutex);
  if (const auto found = all.by_text.find(key); found != all.by_text.end()) return *found->second;
  return *all.by_text.emplace(key, make()).first->second;
}

Definition::Definition(const std::string& of_kernel, const KernelOptions& with, Parameters all,
                       Traits traits, GradientKernel gradient)
    : name(of_kernel),
      options(with),
      parameters(std::move(all)),
      inputs(traits.pointers
                 ? parameters.size()
                 : static_cast<size_t>(std::ranges::count(parameters, false, &Parameter::written))),
      pointers(traits.pointers),
      scatters(traits.scatters),
      ordered(traits.ordered),
      integers(traits.integers),
      gradient_(std::move(gradient)) {}

std::vector<bool> Definition::outputs_set_by(const std::string& body) const {
  const bool macros = options.preamble.find('#') != std::string::npos ||
                      !options.cpu_options.empty() || !options.options.empty();
  return macros ? std::vector<bool>(parameters.size()) : set_first(tokens_of(body), parameters);
}

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
