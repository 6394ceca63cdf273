#include <locus/core/context.h>

#include <atomic>
#include <deque>
#include <ostream>

#include <locus/core/error.h>

namespace locus {
namespace {

thread_local Context default_context;

// Built-in types have names on any machine, with or without such devices.
std::atomic<const char*> names[kMaxDeviceTypes] = {nullptr, "cpu", "gpu", "cpu_pinned"};

bool has_name(DeviceType type) {
  const auto code = static_cast<unsigned>(type);
  return code < kMaxDeviceTypes && names[code].load(std::memory_order_acquire);
}

std::string all_names() {
  std::string list;
  for (int code = 1; code < kMaxDeviceTypes; ++code)
    if (const auto type = static_cast<DeviceType>(code); has_name(type))
      list += (list.empty() ? "" : ", ") + std::string(device_type_name(type));
  return list;
}

}  // namespace

const char* device_type_name(DeviceType type) {
  return has_name(type) ? names[static_cast<int>(type)].load(std::memory_order_acquire) : "unknown";
}

void name_device_type(DeviceType type, const std::string& name) {
  if (has_name(type)) return;
  static std::deque<std::string>& kept = *new std::deque<std::string>;  // the caller locks
  names[static_cast<int>(type)].store(kept.emplace_back(name).c_str(), std::memory_order_release);
}

Context Context::parse(std::string_view text) {
  for (int code = 1; code < kMaxDeviceTypes; ++code) {
    const auto type = static_cast<DeviceType>(code);
    if (!has_name(type)) continue;
    const std::string_view type_name = device_type_name(type);
    if (!text.starts_with(type_name)) continue;
    std::string_view rest = text.substr(type_name.size());
    if (rest.empty()) return {type, 0};
    if (rest.front() == ':')
      rest.remove_prefix(1);
    else if (rest.front() == '(' && rest.back() == ')')
      rest = rest.substr(1, rest.size() - 2);
    else
      continue;  // "cpu" is also a prefix of "cpu_pinned"
    const auto index = number_in<int32_t>(rest);
    if (index && *index >= 0) return {type, *index};
  }
  throw Error("Context::parse: \"", text, "\" names no context; expected one of ", all_names(),
              ", alone or with an index: gpu(1) or gpu:1");
}

std::string to_string(Context c) {
  return std::string(device_type_name(c.type)) + "(" + std::to_string(c.index) + ")";
}

std::ostream& operator<<(std::ostream& os, Context c) { return os << to_string(c); }

std::vector<Context> gpus(int n) {
  if (n < 0) throw ValueError("gpus: ", n, " GPUs; expected a number >= 0");
  std::vector<Context> list;
  for (int i = 0; i < n; ++i) list.push_back(gpu(i));
  return list;
}

Context current_context() { return default_context; }

ContextScope::ContextScope(Context c) : previous_(default_context) { default_context = c; }
ContextScope::~ContextScope() { default_context = previous_; }

Contexts::Contexts(std::initializer_list<Context> list) : Contexts(std::vector<Context>(list)) {}
Contexts::Contexts(std::vector<Context> list) : list_(std::move(list)) {
  if (list_.empty()) throw Error("Contexts: expected at least one context");
  for (size_t i = 0; i < list_.size(); ++i)
    if (std::find(list_.begin(), list_.begin() + static_cast<ptrdiff_t>(i), list_[i]) !=
        list_.begin() + static_cast<ptrdiff_t>(i))
      throw ValueError("Contexts: ", list_[i], " is given twice; expected each context once");
}

bool mix(Context a, Context b) {
  return a == b || (is_host(a) && is_host(b) &&
                    (a.type == DeviceType::cpu_pinned || b.type == DeviceType::cpu_pinned));
}

}  // namespace locus
