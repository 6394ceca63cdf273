#include <locus/devices/cuda_dnn.h>

#include <algorithm>

#include <locus/core/text.h>

#ifdef LOCUS_WITH_CUDNN
#include <unordered_map>

#include <locus/core/mutex.h>
#include <locus/core/scratch.h>
#include <locus/devices/cuda_dnn_graph.h>
#include <locus/devices/cuda_driver.h>
#include <locus/devices/cuda_library.h>
#endif

namespace locus::cuda {

DnnConvolution::Numbers DnnConvolution::numbers() const {
  Numbers n{static_cast<int64_t>(kind),
            static_cast<int64_t>(dtype),
            channels_last,
            tf32,
            residual,
            bias,
            relu,
            images,
            groups,
            in,
            out};
  auto to = n.begin() + 11;
  for (const auto& axes : {data, kernel, result, stride, padding, dilation})
    to = std::copy_n(axes, 3, to);
  return n;
}

std::string to_string(const DnnConvolution& c) {
  constexpr const char* kKinds[] = {"forward", "data gradient", "weight gradient"};
  constexpr const char* kDTypes[] = {"f32", "f64", "f16", "bf16"};
  const auto axes = [](const int64_t(&n)[3]) { return listed(n, {}, "x"); };
  return text_of("convolution ", kKinds[static_cast<int>(c.kind)], " ",
                 kDTypes[static_cast<int>(c.dtype)], c.tf32 ? " tf32" : "",
                 c.channels_last ? " channels last" : "", c.residual ? " residual" : "",
                 c.bias ? " bias" : "", c.relu ? " relu" : "", ", ", c.images, " of ", c.groups,
                 " groups ", c.in, " to ", c.out, ", data ", axes(c.data), " kernel ",
                 axes(c.kernel), " result ", axes(c.result), " stride ", axes(c.stride),
                 " padding ", axes(c.padding), " dilation ", axes(c.dilation));
}

#ifndef LOCUS_WITH_CUDNN

struct DnnPlan {
  std::string name;
};
int dnn_version() { return 0; }
const DnnPlan* dnn_plan(const Call&, const DnnConvolution&, std::string_view) { return nullptr; }
std::vector<const DnnPlan*> dnn_plans(const Call&, const DnnConvolution&, size_t) { return {}; }
const std::string& dnn_name(const DnnPlan& plan) { return plan.name; }
void dnn_convolve(const Call&, const DnnPlan&, const DnnOperands&) {}
DnnStats dnn_stats(StreamView) { return {}; }

#else

namespace {

constexpr int64_t kMostWorkspace = int64_t{256} << 20;

// Whether the engine computes as cuda_dnn.h says.
bool allowed(const Descriptor& engine, const DnnConvolution& c) {
  // These give 0 for -infinity, as a relu from above -infinity would, which none was asked for:
  // seen of 32 behind a bias and of 47 in f16, on an H200; 33 is the like of 32 for tf32.
  // STRICT_NAN_PROP is no help: 0 alone has it.
  const auto number = get<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (c.bias && !c.relu && (number == 32 || number == 33)) return false;
  if (number == 47 && (c.dtype == f16 || c.dtype == bf16)) return false;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t n = get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes, std::size(notes));
  return std::all_of(notes, notes + n, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return c.dtype != f32 || c.tf32;
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  });
}

std::string name_of(const Descriptor& engine, const Descriptor& config) {
  std::string name = text_of("cudnn ", get<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  for (const Descriptor& knob : get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                    CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS))
    name += text_of(
        " ", static_cast<int>(get<cudnnBackendKnobType_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)),
        "=", get<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  return name;
}

}  // namespace

struct DnnPlan {
  std::string name;
  Descriptor config;
  bool residual, bias;
  Descriptor plan = nullptr;  // made when it is asked for
  size_t workspace = 0;
  bool tried = false;
};

namespace {

struct Hash {
  size_t operator()(const DnnConvolution::Numbers& numbers) const {
    uint64_t h = 14695981039346656037u;  // FNV-1a, by words
    for (const int64_t n : numbers) h = (h ^ static_cast<uint64_t>(n)) * 1099511628211u;
    return static_cast<size_t>(h ^ h >> 32);
  }
};

// Of one convolution: what may be plans, the best first.
struct Plans {
  std::vector<Descriptor> graph;
  std::vector<std::unique_ptr<DnnPlan> > each;
};

// A device's. The handle is made when it is first asked for: it takes device memory and time that
// a program without convolutions need not spend.
struct Dnn {
  Mutex mutex;
  cudnnHandle_t handle LOCUS_GUARDED_BY(mutex) = nullptr;
  void* stream LOCUS_GUARDED_BY(mutex) = nullptr;
  std::unordered_map<DnnConvolution::Numbers, Plans, Hash> plans LOCUS_GUARDED_BY(mutex);
  DnnStats stats LOCUS_GUARDED_BY(mutex);

  Plans& find(const DnnConvolution& c) LOCUS_REQUIRES(mutex);
  bool usable(DnnPlan& p) LOCUS_REQUIRES(mutex);
};

const int kDnn = Libraries::add([]() -> void* { return new Dnn; });
Dnn& dnn_of(StreamView s) { return *static_cast<Dnn*>(library(s, kDnn)); }

Plans& Dnn::find(const DnnConvolution& c) {
  const DnnConvolution::Numbers key = c.numbers();
  if (const auto it = plans.find(key); it != plans.end()) {
    ++stats.found;
    return it->second;
  }
  ++stats.made;
  const OutsideCapture allowed_here;
  if (!handle) LOCUS_CUDA(cudnnCreate(&handle));
  Plans found{make_graph(c, handle), {}};
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (found.graph.empty()) break;
    const Descriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, found.graph.back());
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) continue;
    for (Descriptor& config :
         get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, -1)) {
      const auto engine =
          get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      if (engine.empty() || !allowed(engine[0], c)) continue;
      std::string name = name_of(engine[0], config);
      if (std::ranges::find(found.each, name, [](const auto& p) { return p->name; }) ==
          found.each.end())
        found.each.push_back(std::make_unique<DnnPlan>(
            DnnPlan{std::move(name), std::move(config), c.residual, c.bias}));
    }
  }
  return plans.emplace(key, std::move(found)).first->second;
}

// Engines refuse here what they do not support after all.
bool Dnn::usable(DnnPlan& p) {
  if (p.tried) return p.plan != nullptr;
  const OutsideCapture allowed_here;  // it may load kernels
  Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, p.config);
  const cudnnStatus_t status = cudnnBackendFinalize(plan.get());
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    LOCUS_CUDA(status);
  p.tried = true;
  if (status != CUDNN_STATUS_SUCCESS) return false;
  const auto bytes = get<int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (bytes > kMostWorkspace) return false;
  p.workspace = static_cast<size_t>(bytes);
  p.plan = std::move(plan);
  return true;
}

}  // namespace

int dnn_version() { return static_cast<int>(cudnnGetVersion()); }

const DnnPlan* dnn_plan(const Call& call, const DnnConvolution& c, std::string_view name) {
  Dnn& dnn = dnn_of(call.stream);
  const MutexLock lock(dnn.mutex);
  for (const auto& p : dnn.find(c).each)
    if ((name.empty() || p->name == name) && dnn.usable(*p)) return p.get();
  return nullptr;
}

std::vector<const DnnPlan*> dnn_plans(const Call& call, const DnnConvolution& c, size_t most) {
  Dnn& dnn = dnn_of(call.stream);
  const MutexLock lock(dnn.mutex);
  std::vector<const DnnPlan*> all;
  for (const auto& p : dnn.find(c).each) {
    if (all.size() == most) break;
    if (dnn.usable(*p)) all.push_back(p.get());
  }
  return all;
}

const std::string& dnn_name(const DnnPlan& plan) { return plan.name; }

void dnn_convolve(const Call& call, const DnnPlan& plan, const DnnOperands& operands) {
  const Scratch workspace(call, plan.workspace);
  int64_t ids[5] = {kData, kWeight, kResult};
  const void* pointers[5] = {operands.data, operands.weight, operands.result};
  int64_t n = 3;
  const auto add = [&](Id id, const void* p) {
    ids[n] = id;
    pointers[n++] = p;
  };
  if (plan.bias) add(kBias, operands.bias);
  if (plan.residual) add(kResidual, operands.residual);
  const void* const scratch = workspace.data();
  const Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids, n);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers, n);
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, scratch);
  finalize(pack);

  Dnn& dnn = dnn_of(call.stream);
  const MutexLock lock(dnn.mutex);
  const OutsideCapture allowed_here;  // an engine's first run loads its kernels
  if (dnn.stream != call.stream.native) {
    LOCUS_CUDA(cudnnSetStream(dnn.handle, static_cast<cudaStream_t>(call.stream.native)));
    dnn.stream = call.stream.native;
  }
  LOCUS_CUDA(cudnnBackendExecute(dnn.handle, plan.plan.get(), pack.get()));
}

DnnStats dnn_stats(StreamView s) {
  Dnn& dnn = dnn_of(s);
  const MutexLock lock(dnn.mutex);
  return dnn.stats;
}

#endif

}  // namespace locus::cuda
