#include <locus/core/device.h>

#include <atomic>

#include <locus/core/base/mutex.h>
#include <locus/core/error.h>

namespace locus {
namespace {

struct Registry {
  Mutex mutex;  // held to register and to open
  DeviceFactory factories[kMaxDeviceTypes];
  std::atomic<bool> registered[kMaxDeviceTypes] = {};
  std::atomic<Device*> devices[kMaxDeviceTypes][kMaxDevices] = {};
};

// Never destroyed: tensors in other statics may live longer.
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

[[noreturn]] void no_such_device(Context c) {
  if (!device_registered(c.type))
    throw DeviceError(c, ": this machine has no ", device_type_name(c.type), " that Locus can use");
  const DeviceFactory& f = registry().factories[static_cast<int>(c.type)];
  const int n = f.count();
  throw DeviceError(c, ": this machine has ", n, " ", f.name, n == 1 ? "" : "s",
                    n > 0 ? ", " + f.name + "(0)" : "",
                    n > 1 ? text_of(" to ", f.name, "(", n - 1, ")") : "", *f.advice ? "; " : "",
                    f.advice);
}

Device& open(Context c) {
  Registry& r = registry();
  const int type = static_cast<int>(c.type);
  if (!device_registered(c.type) || c.index < 0 || c.index >= kMaxDevices ||
      c.index >= r.factories[type].count())
    no_such_device(c);
  const MutexLock lock(r.mutex);
  std::atomic<Device*>& slot = r.devices[type][c.index];
  if (!slot) slot = r.factories[type].open(c).release();
  return *slot;
}

}  // namespace

void register_device(DeviceType type, const DeviceFactory& factory) {
  const int code = static_cast<int>(type);
  if (code < 1 || code >= kMaxDeviceTypes)
    throw Error("register_device: \"", factory.name, "\" with code ", code,
                "; expected a code from 1 to ", kMaxDeviceTypes - 1);
  Registry& r = registry();
  const MutexLock lock(r.mutex);
  for (int i = 1; i < kMaxDeviceTypes; ++i)
    if (r.registered[i] && (i == code || r.factories[i].name == factory.name))
      throw Error("register_device: \"", factory.name, "\" or its code ", code, " is taken by \"",
                  r.factories[i].name, "\"; choose another name");
  r.factories[code] = factory;
  name_device_type(type, factory.name);
  r.registered[code] = true;
}

DeviceType register_device(const DeviceFactory& factory) {
  if (factory.name.empty() || !factory.count || !factory.open)
    throw ValueError("register_device: \"", factory.name,
                     "\"; expected a name, and the functions count and open");
  Registry& r = registry();
  constexpr int kFirst = static_cast<int>(DeviceType::cpu_pinned) + 1;
  for (int i = kFirst; i < kMaxDeviceTypes; ++i) {
    if (r.registered[i]) continue;
    register_device(static_cast<DeviceType>(i), factory);
    return static_cast<DeviceType>(i);
  }
  throw Error("register_device: no code is left for \"", factory.name, "\"; Locus has room for ",
              kMaxDeviceTypes - 1, " device types");
}

bool device_registered(DeviceType type) {
  const int code = static_cast<int>(type);
  return code < kMaxDeviceTypes && registry().registered[code];
}

const char* name(Lane lane) {
  constexpr const char* kNames[kNumLanes] = {"compute", "to_device", "to_host", "peer"};
  return kNames[static_cast<int>(lane)];
}

Device& device(Context c) {
  static Registry& r = registry();
  const auto type = static_cast<unsigned>(c.type), index = static_cast<unsigned>(c.index);
  if (type < kMaxDeviceTypes && index < kMaxDevices) [[likely]]
    if (Device* d = r.devices[type][index].load(std::memory_order_acquire)) [[likely]]
      return *d;
  return open(c);
}

MemoryPool& memory_pool(Context c) { return device(c).allocator(); }

MemoryInfo gpu_memory_info(Context c) {
  if (c.type != DeviceType::gpu)
    throw DeviceError("gpu_memory_info: ", c, " is not a gpu; expected gpu(i)");
  return device(c).memory();
}

ContextInfo context_info(Context c) { return device(c).info(); }

int num_gpus() {
  Registry& r = registry();
  return device_registered(DeviceType::gpu) ? r.factories[static_cast<int>(DeviceType::gpu)].count()
                                            : 0;
}

Context best_context() { return num_gpus() > 0 ? gpu(0) : cpu(0); }

std::vector<Context> opened_devices() {
  Registry& r = registry();
  std::vector<Context> list;
  for (int type = 1; type < kMaxDeviceTypes; ++type)
    for (int i = 0; i < kMaxDevices; ++i)
      if (r.devices[type][i].load()) list.push_back({static_cast<DeviceType>(type), i});
  return list;
}

uint32_t new_stream_id() {
  static std::atomic<uint32_t> next{1};
  return next++;
}

}  // namespace locus
