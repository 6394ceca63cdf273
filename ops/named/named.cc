// The functions that have names, and calls of them.
#include <locus/ops/named.h>

#include <map>
#include <memory>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/base/edit_distance.h>
#include <locus/core/base/mutex.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/named/function.h>

namespace locus {
namespace ops {
namespace {

struct Named {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions LOCUS_GUARDED_BY(mutex);
  std::map<std::string, std::string, std::less<>> aliases LOCUS_GUARDED_BY(mutex);
};
Named& named() {  // never destroyed, as ops are
  static Named& all = *new Named;
  return all;
}

[[noreturn]] void taken(std::string_view name) {
  throw Error("ops::define: there is a function \"", name, "\" already; choose another name");
}

}  // namespace

std::vector<const Function*> all_functions() {
  Named& all = named();
  const MutexLock lock(all.mutex);
  std::vector<const Function*> list;
  for (const auto& [name, f] : all.functions) list.push_back(f.get());
  return list;
}

const Function* find_function(std::string_view name) {
  Named& all = named();
  const MutexLock lock(all.mutex);
  const auto alias = all.aliases.find(name);
  const auto found = all.functions.find(alias == all.aliases.end() ? name : alias->second);
  return found == all.functions.end() ? nullptr : found->second.get();
}

std::vector<std::string> aliases_of(std::string_view name) {
  Named& all = named();
  const MutexLock lock(all.mutex);
  std::vector<std::string> list;
  for (const auto& [alias, of] : all.aliases)
    if (of == name) list.push_back(alias);
  return list;
}

const Function& get_function(std::string_view name, const char* who) {
  if (const Function* f = find_function(name)) return *f;
  if (find_op(name))
    throw Error(who, ": the op \"", name,
                "\" has no function by name; it is internal; get_op() has it");
  std::string near;
  const size_t most = name.size() > 4 ? 2 : 1;  // letters that differ
  const auto compare = [&](const std::string& other) {
    if (edit_distance(other, name) <= most) near += text_of(near.empty() ? "" : ", ", other);
  };
  for (const Function* f : all_functions()) {
    compare(f->info.name);
    for (const std::string& alias : aliases_of(f->info.name)) compare(alias);
  }
  throw Error(who, ": there is no op \"", name, "\"",
              near.empty() ? "; ops::list() lists them" : "; near it: " + near);
}

Definition define(std::string_view signature, Callback call) {
  Function made = parsed(signature);
  made.call = std::move(call);
  Named& all = named();
  const MutexLock lock(all.mutex);
  if (all.aliases.contains(made.info.name)) taken(made.info.name);
  const auto [entry, inserted] = all.functions.try_emplace(made.info.name);
  if (!inserted) taken(made.info.name);
  entry->second = std::make_unique<Function>(std::move(made));
  return Definition(*entry->second);
}

void alias(std::string name, std::string of) {
  Named& all = named();
  const MutexLock lock(all.mutex);
  if (all.functions.contains(name) || all.aliases.contains(name)) taken(name);
  all.aliases[std::move(name)] = std::move(of);
}

void detail::define_formula(const char* name, int operands, Callback call) {
  const char* const inputs[] = {"data", "lhs: operand, rhs: operand",
                                "condition, x: operand, y: operand"};
  define(text_of(name, "(", inputs[operands - 1], ")"), std::move(call));
}

Definition& Definition::made_of(std::vector<std::string> ops) {
  function_.info.made_of = std::move(ops);
  return *this;
}
Definition& Definition::no_gradient(std::string why) {
  function_.info.no_gradient = std::move(why);
  return *this;
}
Definition& Definition::no_capture(std::string why) {
  function_.info.no_capture = std::move(why);
  return *this;
}

Tensor Arguments::tensor(size_t i) const {
  return i < inputs_.size() ? inputs_[i].tensor() : Tensor();
}
Operand Arguments::operand(size_t i) const {
  if (i >= inputs_.size() && i >= function_.inputs.size())
    throw Error(function_.info.name, ": the function reads input ", i,
                ", which its signature lacks: ", function_.info.signature);
  const Input& in = i < inputs_.size() ? inputs_[i] : function_.inputs[i].fallback;
  if (!in.is_number()) return Operand(in.tensor());
  const Scalar& s = in.number();
  if (s.kind() == Scalar::Kind::floating) return Operand(s.floating());
  if (s.kind() == Scalar::Kind::boolean) return Operand(s.integer() != 0);
  if (s.beyond_i64()) return Operand(static_cast<uint64_t>(s.floating()));
  return Operand(s.integer());
}
Tensors Arguments::tensors() const {
  Tensors all;
  for (size_t i = 0; i < inputs_.size(); ++i) all.push_back(inputs_[i].tensor());
  return all;
}
Argument Arguments::operator[](std::string_view attribute) const {
  const std::vector<AttributeInfo>& infos = function_.info.attributes;
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i].name == attribute) return {function_.info.name.c_str(), infos[i], *values_[i]};
  throw Error(function_.info.name, ": the function reads the attribute \"", attribute,
              "\", which its signature lacks: ", function_.info.signature);
}
TensorOptions Arguments::options() const {
  TensorOptions options;
  if (const Argument dtype = (*this)["dtype"]; !dtype.none()) options.dtype = DType(dtype);
  if (const Argument context = (*this)["ctx"]; !context.none()) options.context = Context(context);
  return options;
}

}  // namespace ops

ops::Result invoke(std::string_view name, const ops::Inputs& inputs,
                   const ops::Attributes& attributes, Caller from) try {
  const UserLine user_line(from);
  const ops::Function& f = ops::get_function(name, "invoke");
  try {
    ops::check_inputs(f, inputs);
    return f.call(ops::Arguments(f, inputs, ops::values_of(f, attributes)));
  } catch (const Error&) {
    detail::rethrow_as(name, from);
  }
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
