// Contexts: where tensors live. Value types, constructible and comparable on any machine. First use
// opens the device, and throws DeviceError if it is missing.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus {

inline Context cpu(int index = 0) { return {DeviceType::cpu, index}; }
inline Context gpu(int index = 0) { return {DeviceType::gpu, index}; }
// Page-locked host memory: the CPU computes on it, a GPU's copy engine reads and writes it
// directly.
inline Context cpu_pinned(int index = 0) { return {DeviceType::cpu_pinned, index}; }

// "unknown" if the type has no name.
const char* device_type_name(DeviceType type);
void name_device_type(DeviceType type, const std::string& name);  // by register_device()

std::string to_string(Context c);                       // "gpu(1)"
std::ostream& operator<<(std::ostream& os, Context c);  // the same

int num_gpus();                    // 0 without a driver; emulated GPUs count
Context best_context();            // gpu(0) if there is one, else cpu(0)
std::vector<Context> gpus(int n);  // gpu(0) ... gpu(n-1)

struct MemoryInfo {
  size_t free = 0, total = 0;  // bytes
};
MemoryInfo gpu_memory_info(Context c);

struct ContextInfo {
  std::string name;        // the hardware's name
  bool emulated = false;   // times measured there are not a GPU's
  bool modelled = false;   // these times are computed from a model of the hardware
  std::string times = {};  // for an emulated context: what its times are; else empty
};
ContextInfo context_info(Context c);

// The context where this thread creates tensors by default. cpu(0) in a new thread. Moves no data.
Context current_context();

// Sets current_context() for a scope. Nests; restores on exit, also by exception. Thread-local.
class [[nodiscard]] ContextScope : NonCopyable {
 public:
  explicit ContextScope(Context c);
  ~ContextScope();

 private:
  Context previous_;
};

// Contexts for initialize() and split_and_load(): at least one (else Error), no duplicates
// (ValueError).
class Contexts {
 public:
  Contexts(Context c) : list_{c} {}
  Contexts(std::initializer_list<Context> list);
  Contexts(std::vector<Context> list);

  const std::vector<Context>& list() const { return list_; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  size_t size() const { return list_.size(); }

 private:
  std::vector<Context> list_;
};

// cpu and cpu_pinned both are host memory. Every other context has separate memory.
inline bool is_host(Context c) {
  return c.type == DeviceType::cpu || c.type == DeviceType::cpu_pinned;
}
// Whether an op accepts tensors of both: equal contexts, or host contexts of which one is pinned.
bool mix(Context a, Context b);

}  // namespace locus
