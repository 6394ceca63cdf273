// What the registry says of the functions that have names.
#include <algorithm>

#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/ops/named/function.h>

namespace locus::ops {
namespace {

// The types of devices that some op has kernels for. Views and ops of copies run on all.
std::vector<DeviceType> device_types() {
  std::vector<DeviceType> types;
  const std::vector<const Op*> all = all_ops();
  for (int t = 0; t < kMaxDeviceTypes; ++t) {
    const auto type = static_cast<DeviceType>(t);
    const auto has = [&](const Op* op) {
      for (int d = 0; d < kNumDTypes; ++d)
        if (op->kernel(type, static_cast<DType>(d))) return true;
      return false;
    };
    if (std::ranges::any_of(all, has)) types.push_back(type);
  }
  return types;
}

bool runs(const Op& op, DeviceType type, DType d) {
  return op.make_view || op.function || op.kernel(type, d);
}
bool has_gradient(const Op& op) { return op.gradient || (op.function && !op.no_gradient); }

// Adds what the ops of `info.made_of` say.
void add_ops(Info& info, const std::vector<DeviceType>& types) {
  std::vector<const Op*> ops;
  for (const std::string& name : info.made_of) ops.push_back(&get_op(name));
  if (ops.empty()) return;
  for (const DeviceType type : types) {
    std::vector<DType> dtypes;
    for (int d = 0; d < kNumDTypes; ++d)
      if (runs(*ops[0], type, static_cast<DType>(d))) dtypes.push_back(static_cast<DType>(d));
    if (!dtypes.empty()) info.dtypes.emplace_back(type, std::move(dtypes));
  }
  if (info.no_gradient.empty() &&
      std::ranges::none_of(ops, [](const Op* op) { return has_gradient(*op); }))
    info.no_gradient =
        ops[0]->no_gradient ? text_of(ops[0]->name, ": ", ops[0]->no_gradient) : "it has none";
  for (const Op* op : ops)
    if (info.no_capture.empty() && op->no_capture)
      info.no_capture = text_of(op->name, ": ", op->no_capture);
}

Info complete(const Function& f, const std::vector<DeviceType>& types) {
  Info info = f.info;
  info.aliases = aliases_of(info.name);
  if (info.made_of.empty() && find_op(info.name)) info.made_of = {info.name};
  add_ops(info, types);
  return info;
}

Info internal(const Op& op, const std::vector<DeviceType>& types) {
  Info info;
  info.name = op.name;
  info.signature = text_of(op.name, "(", listed(op.arguments), ")");
  info.made_of = {op.name};
  info.results = op.n_out > 0 ? op.n_out : -1;
  info.internal = true;
  add_ops(info, types);
  return info;
}

}  // namespace

std::vector<Info> list() {
  const std::vector<DeviceType> types = device_types();
  std::vector<Info> all;
  for (const Function* f : all_functions()) all.push_back(complete(*f, types));
  for (const Op* op : all_ops())
    if (!find_function(op->name)) all.push_back(internal(*op, types));
  return all;
}

Info get(std::string_view name) { return complete(get_function(name, "ops::get"), device_types()); }

}  // namespace locus::ops
