#include <locus/nn/block.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <typeinfo>

#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/io.h>
#include <locus/core/mutex.h>

namespace locus::nn {

Parameter Block::add_parameter(const std::string& name, const Shape& shape,
                               const ParameterOptions& options) {
  return own_.emplace_back(name, Parameter(name, shape, options)).second;
}

void Block::hybridize(bool active) {
  hybrid_.active = active;
  hybrid_.compiled = nullptr;
}

Tensor Block::compiled_forward(const Tensor& x, Caller from) {
  static Mutex mutex;  // two threads may be the first
  std::shared_ptr<Compiled> compiled;
  {
    const MutexLock lock(mutex);
    if (!hybrid_.compiled)
      hybrid_.compiled =
          std::make_shared<Compiled>([this](const Tensors& in) { return Tensors{forward(in[0])}; });
    compiled = hybrid_.compiled;
  }
  return (*compiled)({x}, from)[0];
}

void Block::push_child(const std::string& name, std::shared_ptr<Block> block) {
  children_.emplace_back(name, std::move(block));
}

void Block::collect(const std::string& prefix, Parameters& out) const {
  for (const auto& [name, parameter] : own_) {
    parameter.rename(prefix + name);
    out.emplace_back(prefix + name, parameter);
  }
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", out);
}

Parameters Block::parameters() const {
  Parameters out;
  collect("", out);
  return out;
}

namespace {
std::string names(const auto& list) {
  return list.empty() ? "none" : listed(list, [](const auto& entry) { return entry.first; });
}
}  // namespace

Parameter Block::parameter(std::string_view name) const {
  const Parameters all = parameters();
  for (const auto& [key, p] : all)
    if (key == name) return p;
  throw Error(type_name(), ": no parameter '", name, "'; there are: ", names(all));
}

void Block::initialize(const Contexts& contexts, const InitializeOptions& options, Caller from) {
  initialize(init::Uniform(), contexts, options, from);
}

void Block::initialize(const init::Initializer& global, const Contexts& contexts,
                       const InitializeOptions& options, Caller from) {
  for (const auto& [name, p] : parameters()) p.initialize(global, contexts, options, from);
}

void Block::zero_grad() {
  for (const auto& [name, p] : parameters()) p.zero_grad();
}

void Block::reset_ctx(const Contexts& contexts, Caller from) {
  for (const auto& [name, p] : parameters()) p.reset_ctx(contexts, from);
}

void Block::save_parameters(const std::string& path, Caller from) const {
  NamedTensors tensors;
  for (const auto& [name, p] : parameters()) tensors.emplace_back(name, p.mean_on_cpu(from));
  save(path, tensors, from);
}

void Block::load_parameters(const std::string& path, Caller from) { load(path, nullptr, {}, from); }

void Block::load_parameters(const std::string& path, const Contexts& contexts,
                            const LoadOptions& options, Caller from) {
  load(path, &contexts, options, from);
}

void Block::load(const std::string& path, const Contexts* contexts, const LoadOptions& options,
                 Caller from) {
  NamedTensors file = locus::load(path, cpu(), from);
  const Parameters all = parameters();
  std::set<std::string_view> keys;
  for (auto& [key, tensor] : file) {
    // export() and Module write "arg:0.weight" and "aux:...".
    if (key.starts_with("arg:") || key.starts_with("aux:")) key.erase(0, 4);
    if (key.empty())
      throw FormatError("load_parameters: ", path, " is a list without names; expected the names ",
                        names(all));
    if (!keys.insert(key).second)
      throw FormatError("load_parameters: ", path, " has '", key, "' twice");
  }
  std::vector<std::pair<const Parameter*, const Tensor*>> plan;
  for (const auto& [name, p] : all) {
    const auto it = std::ranges::find(file, name, &NamedTensors::value_type::first);
    if (it == file.end()) {
      if (options.allow_missing) continue;
      throw FormatError("Parameter '", name, "' is missing in file '", path,
                        "', which contains parameters: ", names(file),
                        ". Set allow_missing to ignore missing parameters.");
    }
    const Tensor& saved = it->second;
    if (!saved.defined())
      throw FormatError("load_parameters: ", path, " holds no array for '", name, "'");
    if (!p.fits(saved.shape()))
      throw ShapeError("Failed loading Parameter '", name, "' from saved params ", path,
                       ": shape incompatible expected ", p.shape(), " vs saved ", saved.shape());
    if (saved.dtype() != p.dtype() && !options.cast_dtype)
      throw DTypeError("Failed loading Parameter '", name, "' from saved params ", path,
                       ": dtype incompatible expected ", locus::name(p.dtype()), " vs saved ",
                       locus::name(saved.dtype()),
                       ". Set cast_dtype to cast the dtype of saved params.");
    plan.emplace_back(&p, &saved);
  }
  if (!options.ignore_extra)
    for (const auto& [key, tensor] : file)
      if (std::ranges::find(all, key, &Parameters::value_type::first) == all.end())
        throw FormatError("Parameter '", key, "' loaded from file '", path,
                          "' is not present in this block, which contains parameters ", names(all),
                          ". Set ignore_extra to ignore.");
  for (const auto& [p, saved] : plan) {
    if (p->initialized() && (!contexts || p->list_ctx() == contexts->list()))
      p->set_data(*saved, from);
    else
      p->place(*saved,
               contexts        ? *contexts
               : p->deferred() ? Contexts(p->list_ctx())
                               : Contexts(current_context()),
               from);
  }
}

std::string Block::type_name() const {
  const std::string full = locus::type_name(typeid(*this));
  const size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

std::string Block::repr() const {
  std::string text = type_name() + "(";
  for (const auto& [name, child] : children_) {
    text += "\n  (" + name + "): ";
    for (char c : child->repr()) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return text + "\n)";
}

std::ostream& operator<<(std::ostream& os, const Block& block) { return os << block.repr(); }

}  // namespace locus::nn
