#include <locus/nn/block.h>

#include <regex.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <typeinfo>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/io.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/join.h>

namespace locus::nn {
namespace {

std::string names(const auto& list) {
  return list.empty() ? "none" : listed(list, [](const auto& entry) {
    if constexpr (requires { entry.first; })
      return entry.first;
    else
      return entry.name;
  });
}

// Each parameter once, under its first name.
Parameters distinct(Parameters all) {
  Parameters out;
  for (auto& [name, p] : all)
    if (std::none_of(out.begin(), out.end(), [&q = p](const auto& o) { return o.second.is(q); }))
      out.emplace_back(std::move(name), std::move(p));
  return out;
}

// A file's entry: a parameter, or the parts of a whole.
struct FileEntry {
  std::string name;
  std::vector<Parameter> parts;
};
std::vector<FileEntry> entries(const Parameters& all) {
  std::vector<FileEntry> list;
  for (const auto& [name, p] : all)
    if (const Shard part = p.part(); part.index > 0)
      list.back().parts.push_back(p);
    else
      list.push_back({part.of == 1 ? name : name.substr(0, name.rfind('.')), {p}});
  return list;
}

}  // namespace

void Block::refuse_taken(const std::string& name) const {
  const auto is = [&](const auto& entry) { return entry.first == name; };
  if (name.empty() || std::any_of(own_.begin(), own_.end(), is) ||
      std::any_of(children_.begin(), children_.end(), is))
    throw ValueError(type_name(), ": a parameter or child named '", name,
                     "'; expected a name that is not empty and not taken: ", names(own_), ", ",
                     names(children_));
}

Parameter Block::add_parameter(const std::string& name, const Shape& shape,
                               const ParameterOptions& options) {
  refuse_taken(name);
  return own_.emplace_back(name, Parameter(name, shape, options)).second;
}

std::vector<Parameter> Block::add_parts(const std::string& name, const Shape& shape, int axis,
                                        const Contexts& contexts, const ParameterOptions& options) {
  std::vector<Parameter> parts = Parameter::parts(name, shape, axis, contexts, options);
  for (const Parameter& p : parts) {
    refuse_taken(p.name());
    own_.emplace_back(p.name(), p);
  }
  return parts;
}

void Block::hybridize(bool active) {
  hybrid_.active = active;
  hybrid_.compiled = nullptr;
}

void Block::push_child(const std::string& name, std::shared_ptr<Block> block) {
  if (!block) throw ValueError(type_name(), ": child '", name, "' is a null pointer");
  refuse_taken(name);
  for (const auto& [path, p] : block->parameters()) p.rename(name + "." + path);
  children_.emplace_back(name, std::move(block));
}

void Block::collect(const std::string& prefix, Parameters& out) const {
  for (const auto& [name, parameter] : own_) out.emplace_back(prefix + name, parameter);
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", out);
}

Parameters Block::parameters() const {
  Parameters out;
  collect("", out);
  return out;
}

Parameters Block::parameters(const std::string& pattern) const {
  constexpr size_t kLongest = 1000;  // regcomp() recurses
  if (pattern.size() > kLongest)
    throw ValueError(type_name(), ": a pattern of ", pattern.size(),
                     " characters; expected at most ", kLongest);
  regex_t wanted;
  const std::string anchored = "^(" + pattern + ")";
  if (const int code = regcomp(&wanted, anchored.c_str(), REG_EXTENDED | REG_NOSUB); code != 0) {
    char why[128];
    regerror(code, &wanted, why, sizeof why);
    throw ValueError(type_name(), ": parameters(\"", pattern, "\"): ", why);
  }
  const std::unique_ptr<regex_t, void (*)(regex_t*)> freed(&wanted, &regfree);
  Parameters out = parameters();
  std::erase_if(out, [&](const auto& entry) {
    return regexec(&wanted, entry.first.c_str(), 0, nullptr, 0) != 0;
  });
  return out;
}

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
                       const InitializeOptions& options, Caller from) try {
  for (const auto& [name, p] : distinct(parameters()))
    p.initialize(global, contexts, options, from);
} catch (const Error&) {
  rethrow_at(from);
}

void Block::zero_grad(Caller from) try {
  for (const auto& [name, p] : distinct(parameters())) p.zero_grad(from);
} catch (const Error&) {
  rethrow_at(from);
}

void Block::reset_ctx(const Contexts& contexts, Caller from) try {
  for (const auto& [name, p] : parameters()) p.check_stays(contexts);
  for (const auto& [name, p] : distinct(parameters())) p.reset_ctx(contexts, from);
} catch (const Error&) {
  rethrow_at(from);
}

void Block::cast(DType dtype) {
  if (!is_floating(dtype))
    throw DTypeError(type_name(), ": cast to ", locus::name(dtype),
                     "; expected a floating dtype: f32, f64, f16 or bf16");
  for (const auto& [name, p] : own_) p.cast(dtype);
  for (const auto& [name, child] : children_) child->cast(dtype);
}

void Block::freeze(const std::string& pattern) {
  for (const auto& [name, p] : parameters(pattern)) p.set_grad_req(GradReq::null);
}

void Block::unfreeze(const std::string& pattern) {
  for (const auto& [name, p] : parameters(pattern)) p.set_grad_req(p.made_grad_req());
}

void Block::share_parameters(const Block& other) {
  const Parameters theirs = other.parameters();
  Parameters shared;
  for (const auto& [name, p] : parameters()) {
    const auto it = std::ranges::find(theirs, name, &Parameters::value_type::first);
    if (it == theirs.end()) continue;
    p.check_shares(it->second);
    shared.emplace_back(name, p);
  }
  if (shared.empty())
    throw Error(type_name(), ": share_parameters: no name of ", names(parameters()),
                " is among those of the other block: ", names(theirs));
  for (const auto& [name, p] : shared)
    p.share(std::ranges::find(theirs, name, &Parameters::value_type::first)->second);
}

void Block::apply(const std::function<void(Block&)>& visit) {
  if (!visit) throw ValueError(type_name(), "::apply: visit is null; expected a function");
  for (const auto& [name, child] : children_) child->apply(visit);
  visit(*this);
}

void Block::refuse_other_dtype(const Tensor& x, const Parameter& p) const {
  if (x.dtype() == p.dtype() || !is_floating(x.dtype()) || amp::dtype()) [[likely]]
    return;
  throw DTypeError(type_name(), ": input ", describe(x), ", but '", p.name(), "' is ",
                   locus::name(p.dtype()), "; expected one dtype: cast the input with astype(",
                   locus::name(p.dtype()), "), or the network with cast(", locus::name(x.dtype()),
                   ")");
}

NamedTensors Block::values(Caller from) const {
  NamedTensors tensors;
  const autograd::Pause pause;
  for (const auto& [name, parts] : entries(parameters())) {
    Tensors values;
    for (const Parameter& p : parts) values.push_back(p.mean_on_cpu(from));
    tensors.emplace_back(
        name, parts.size() == 1 ? values[0] : concat(values, {.axis = parts[0].part().axis}));
  }
  return tensors;
}

void Block::save_parameters(const std::string& path, Caller from) const try {
  save(path, values(from), from);
} catch (const Error&) {
  rethrow_at(from);
}

void Block::load_parameters(const std::string& path, Caller from) try {
  const UserLine user_line(from);
  prepare_load(locus::load(path, cpu(), from), path, {}, {}, from)();
} catch (const Error&) {
  rethrow_at(from);
}

void Block::load_parameters(const std::string& path, const Contexts& contexts,
                            const LoadOptions& options, Caller from) try {
  const UserLine user_line(from);
  prepare_load(locus::load(path, cpu(), from), path, contexts, options, from)();
} catch (const Error&) {
  rethrow_at(from);
}

// Checks the tensors of `path` and returns a function that stores them.
std::function<void()> Block::prepare_load(NamedTensors file, const std::string& path,
                                          const std::optional<Contexts>& contexts,
                                          const LoadOptions& options, Caller from,
                                          ShapesToCome* to_come) const {
  const std::vector<FileEntry> all = entries(parameters());
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
  struct Step {
    std::vector<Parameter> parts;
    Tensor values;
    Contexts where;
  };
  std::vector<Step> plan;
  for (const auto& [name, parts] : all) {
    const Parameter& p = parts[0];
    const Tensor* const in_file = find_in(file, name);
    if (!in_file) {
      if (options.allow_missing) continue;
      throw FormatError("Parameter '", name, "' is missing in file '", path,
                        "', which contains parameters: ", names(file),
                        ". Set allow_missing to ignore missing parameters.");
    }
    const Tensor& saved = *in_file;
    if (!saved.defined())
      throw FormatError("load_parameters: ", path, " holds no array for '", name, "'");
    if (!p.fits(saved.shape()))
      throw ShapeError("Failed loading Parameter '", name, "' from saved params ", path,
                       ": shape incompatible expected ", lengths_text(p.full_shape()), " vs saved ",
                       saved.shape());
    if (saved.dtype() != p.dtype() && !options.cast_dtype)
      throw DTypeError("Failed loading Parameter '", name, "' from saved params ", path,
                       ": dtype incompatible expected ", locus::name(p.dtype()), " vs saved ",
                       locus::name(saved.dtype()),
                       ". Set cast_dtype to cast the dtype of saved params.");
    for (const auto& [earlier, values, on] : plan)  // a shared parameter has several names
      if (earlier[0].is(p) && values.shape() != saved.shape())
        throw ShapeError("Failed loading Parameter '", name, "' from saved params ", path,
                         ": it is shared with one that is saved as ", values.shape(),
                         ", but is saved as ", saved.shape());
    const bool placed = p.initialized() || p.deferred();
    plan.push_back({parts, saved,
                    contexts ? *contexts
                    : placed ? Contexts(p.list_ctx())
                             : home(p)});
  }
  if (!options.ignore_extra)
    for (const auto& [key, tensor] : file)
      if (std::ranges::find(all, key, &FileEntry::name) == all.end())
        throw FormatError("Parameter '", key, "' loaded from file '", path,
                          "' is not present in this block, which contains parameters ", names(all),
                          ". Set ignore_extra to ignore.");
  for (const auto& [parts, values, where] : plan)
    for (const Parameter& p : parts)
      if (to_come) to_come->emplace_back(p, values.shape());
  return [plan = std::move(plan), from] {
    for (const auto& [parts, values, where] : plan)
      for (const Parameter& p : parts) p.load(values, where, from);
  };
}

Contexts Block::home(const Parameter&) const { return current_context(); }

bool Block::spans_contexts() const {
  return std::ranges::any_of(children_, [](const auto& c) { return c.second->spans_contexts(); });
}
bool Block::spans_replicas() const {
  return std::ranges::any_of(children_, [](const auto& c) { return c.second->spans_replicas(); });
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
