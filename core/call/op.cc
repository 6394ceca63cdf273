#include <locus/core/op.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <locus/core/base/edit_distance.h>
#include <locus/core/base/mutex.h>
#include <locus/core/error.h>
#include <locus/core/kernel_list.h>

namespace locus {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops LOCUS_GUARDED_BY(mutex);
};
Registry& registry() {  // never destroyed: other statics use ops
  static Registry& r = *new Registry;
  return r;
}

}  // namespace

void detail::allow_over_input(Op& op, int i) {
  if (i < 0 || i >= 32)
    throw ValueError(op.name, ": over_input ", i,
                     "; expected 0 to 31: a later result has new "
                     "memory and is copied");
  op.over_inputs |= 1u << i;
}

Op& define_op(std::string_view name) {
  Registry& r = registry();
  const MutexLock lock(r.mutex);
  auto [entry, inserted] = r.ops.try_emplace(std::string(name));
  if (!inserted)
    throw Error(
        "define_op: \"", name,
        "\" is defined already; choose another name, or set_kernel() to add a kernel to it");
  entry->second = std::make_unique<Op>();
  entry->second->name = name;
  return *entry->second;
}

Op* find_op(std::string_view name) {
  Registry& r = registry();
  const MutexLock lock(r.mutex);
  const auto found = r.ops.find(name);
  return found == r.ops.end() ? nullptr : found->second.get();
}

Op& get_op(std::string_view name) {
  if (Op* op = find_op(name)) return *op;
  std::string near;
  for (const Op* op : all_ops())
    if (edit_distance(op->name, name) <= 2) near += (near.empty() ? "" : ", ") + op->name;
  throw Error("get_op: there is no op \"", name, "\"",
              near.empty() ? "; all_ops() lists them" : "; near it: " + near);
}

std::vector<const Op*> all_ops() {
  Registry& r = registry();
  const MutexLock lock(r.mutex);
  std::vector<const Op*> list;
  for (const auto& [name, op] : r.ops) list.push_back(op.get());
  return list;
}

void set_kernel(std::string_view op, DeviceType type, DType dtype, Kernel kernel) {
  expect_dtype(dtype);
  if (static_cast<int>(type) >= kMaxDeviceTypes)
    throw ValueError("set_kernel: ", op, ": device type ", static_cast<int>(type),
                     "; expected a registered type");
  get_op(op).kernels[static_cast<int>(type)][static_cast<int>(dtype)] = kernel;
}

void set_kernels(DeviceType type, const KernelList& list) {
  for (int i = 0; i < list.size; ++i)
    for (int d = 0; d < kNumDTypes; ++d)
      if (const Kernel kernel = list.entries[i].kernels[d])
        set_kernel(list.entries[i].op, type, static_cast<DType>(d), kernel);
}

}  // namespace locus
