#include <locus/devices/cuda/dnn.h>

#include <algorithm>

#include <locus/core/base/text.h>
#include <locus/devices/cuda/library.h>

#ifdef LOCUS_WITH_CUDNN
#include <locus/core/base/lru.h>
#include <locus/core/base/mutex.h>
#include <locus/core/scratch.h>
#include <locus/devices/cuda/dnn_graph.h>
#include <locus/devices/cuda/exit.h>
#include <locus/devices/cuda/unlocked_stream.h>
#endif

namespace locus::cuda {

std::string to_string(const DnnConvolution& c) {
  constexpr const char* kKinds[] = {"forward", "data gradient", "weight gradient"};
  constexpr const char* kDTypes[] = {"f32", "f64", "f16", "bf16"};
  const auto axes = [](const int64_t(&n)[3]) { return listed(n, {}, "x"); };
  return text_of(
      "convolution ", kKinds[static_cast<int>(c.kind)], " ", kDTypes[static_cast<int>(c.dtype)],
      c.tf32 ? " tf32" : "", c.channels_last ? " channels last" : "", c.bias ? " bias" : "",
      c.relu ? " relu" : "", ", ", c.images, " of ", c.groups, " groups ", c.in, " to ", c.out,
      ", data ", axes(c.data), " kernel ", axes(c.kernel), " result ", axes(c.result), " stride ",
      axes(c.stride), " padding ", axes(c.padding), " dilation ", axes(c.dilation));
}

#ifndef LOCUS_WITH_CUDNN

struct DnnPlan {
  std::string name;
};
void* make_dnn() { return nullptr; }
int dnn_version() { return 0; }
DnnPlanRef dnn_plan(const Call&, const DnnConvolution&, std::string_view) { return nullptr; }
std::vector<DnnPlanRef> dnn_plans(const Call&, const DnnConvolution&, size_t) { return {}; }
const std::string& dnn_name(const DnnPlan& plan) { return plan.name; }
void dnn_convolve(const Call&, const DnnPlan&, const DnnOperands&) {}
DnnStats dnn_stats(StreamView) { return {}; }

#else

namespace {

// Whether the engine's numerical notes satisfy dnn.h.
bool allowed(const Descriptor& engine, const DnnConvolution& c) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t n = get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes, std::size(notes));
  return std::all_of(notes, notes + n, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return c.dtype != f32 || c.tf32;
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  });
}

std::string name_of(const Descriptor& engine, const Descriptor& config) {
  std::string name = text_of("cudnn ", get<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  for (const Descriptor& knob : knobs_of(config))
    name += text_of(
        " ", static_cast<int>(get<cudnnBackendKnobType_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)),
        "=", get<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  return name;
}

using Parts = std::shared_ptr<const std::vector<Descriptor> >;

}  // namespace

struct DnnPlan : NonCopyable {
  DnnPlan(std::string plan_name, const Parts& made_of, Descriptor made, Context where)
      : name(std::move(plan_name)),
        plan(std::move(made)),
        workspace(workspace_of(plan)),
        parts_(made_of),
        device_(where.index) {}
  // Unloads kernels compiled for the plan, on their device.
  ~DnnPlan() {
    release_on(device_, [&] { plan = nullptr; });
    static_cast<void>(plan.release());  // if not released: left to the system
  }

  const std::string name;
  Descriptor plan;
  const size_t workspace;

 private:
  const Parts parts_;
  const int device_;
};

namespace {

// A configuration that may become a plan.
struct Candidate {
  std::string name;
  size_t config;       // index in parts
  bool tried = false;  // tried, plan: under the mutex
  DnnPlanRef plan = nullptr;
};
struct Candidates {
  Parts parts;                       // the graph, and configurations
  std::vector<Candidate> each = {};  // the best first
};

// State of one device. The handles are made for the first plan, because they take device memory and
// time. Threads must not share a handle. A plan made with one handle can be executed with another
// of the same device.
struct Dnn {
  Mutex making;  // locked before the others
  cudnnHandle_t maker LOCUS_GUARDED_BY(making) = nullptr;

  Mutex executing;
  cudnnHandle_t handle LOCUS_GUARDED_BY(executing) = nullptr;
  void* stream LOCUS_GUARDED_BY(executing) = nullptr;

  Mutex mutex;
  Lru<DnnConvolution::Numbers, std::shared_ptr<Candidates>, HashNumbers> known
      LOCUS_GUARDED_BY(mutex){kMostDnnConvolutions};
  DnnStats stats LOCUS_GUARDED_BY(mutex);

  void start() LOCUS_REQUIRES(making);
  std::shared_ptr<Candidates> candidates(const DnnConvolution& c) LOCUS_REQUIRES(making);
  void make(const DnnConvolution& c, const Candidates& of, Candidate& next, Context where)
      LOCUS_REQUIRES(making);
};

Dnn& dnn_of(StreamView s) { return *static_cast<Dnn*>(library(s, Library::dnn)); }

void Dnn::start() {
  {
    const MutexLock lock(executing);
    if (!handle) LOCUS_CUDA(cudnnCreate(&handle));
  }
  if (maker) return;
  LOCUS_CUDA(cudnnCreate(&maker));
  watch_exit();
}

std::shared_ptr<Candidates> Dnn::candidates(const DnnConvolution& c) {
  std::vector<Descriptor> parts = make_graph(c, maker);
  const size_t graph = parts.size();
  std::vector<Candidate> each;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (graph == 0) break;
    const Descriptor heuristics = cuda::make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, parts[graph - 1]);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (!try_finalize(heuristics)) continue;
    for (Descriptor& config :
         get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, -1)) {
      const auto engine =
          get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      if (engine.empty() || !allowed(engine[0], c)) continue;
      std::string name = name_of(engine[0], config);
      if (std::ranges::find(each, name, &Candidate::name) != each.end()) continue;
      each.push_back({std::move(name), parts.size()});
      parts.push_back(std::move(config));
    }
  }
  return std::make_shared<Candidates>(Candidates{
      std::make_shared<const std::vector<Descriptor> >(std::move(parts)), std::move(each)});
}

void Dnn::make(const DnnConvolution& c, const Candidates& of, Candidate& next, Context where) {
  const Descriptor& config = (*of.parts)[next.config];
  Descriptor plan = make_plan(config, maker);
  const bool keeps = plan && keeps_infinities(c, config, maker, where);
  DnnPlanRef made =
      keeps ? std::make_shared<const DnnPlan>(next.name, of.parts, std::move(plan), where)
            : nullptr;
  const MutexLock lock(mutex);
  stats.refused += plan && !keeps;
  next.plan = std::move(made);
  next.tried = true;
}

// Up to `most` plans; with a name, only the plan of that name.
std::vector<DnnPlanRef> find(const Call& call, const DnnConvolution& c, std::string_view name,
                             size_t most) {
  Dnn& dnn = dnn_of(call.stream);
  const DnnConvolution::Numbers key = c.numbers();
  std::vector<DnnPlanRef> found;
  std::shared_ptr<Candidates> all;
  Candidate* next = nullptr;  // the candidate to make next
  const auto complete = [&] {
    const MutexLock lock(dnn.mutex);
    if (!all) {
      const auto* const there = dnn.known.find(key);
      if (!there) return false;
      all = *there;
      ++dnn.stats.found;
    }
    found.clear();
    for (Candidate& p : all->each) {
      if (found.size() == most) break;
      if (!name.empty() && p.name != name) continue;
      next = &p;
      if (!p.tried) return false;
      if (p.plan) found.push_back(p.plan);
    }
    return true;
  };
  if (complete()) return found;

  const UnlockedStream others_launch(call.stream);
  const MutexLock making(dnn.making);
  const OutsideCapture allowed_here;  // making may load kernels
  dnn.start();
  std::shared_ptr<Candidates> dropped;  // destroyed outside the mutex
  while (!complete()) {
    if (all) {
      dnn.make(c, *all, *next, call.stream.context);
      continue;
    }
    all = dnn.candidates(c);
    const MutexLock lock(dnn.mutex);
    ++dnn.stats.made;
    dropped = dnn.known.put(key, all);
  }
  return found;
}

}  // namespace

void* make_dnn() { return new Dnn; }

int dnn_version() { return static_cast<int>(cudnnGetVersion()); }

DnnPlanRef dnn_plan(const Call& call, const DnnConvolution& c, std::string_view name) {
  const std::vector<DnnPlanRef> found = find(call, c, name, 1);
  return found.empty() ? nullptr : found[0];
}
std::vector<DnnPlanRef> dnn_plans(const Call& call, const DnnConvolution& c, size_t most) {
  return find(call, c, {}, most);
}

const std::string& dnn_name(const DnnPlan& plan) { return plan.name; }

void dnn_convolve(const Call& call, const DnnPlan& plan, const DnnOperands& operands) {
  const Scratch workspace(call, plan.workspace);
  Dnn& dnn = dnn_of(call.stream);
  const MutexLock lock(dnn.executing);
  const OutsideCapture allowed_here;  // an engine's first run loads its kernels
  if (dnn.stream != call.stream.native) {
    LOCUS_CUDA(cudnnSetStream(dnn.handle, static_cast<cudaStream_t>(call.stream.native)));
    dnn.stream = call.stream.native;
  }
  execute(plan.plan, dnn.handle, operands, workspace.data());
}

DnnStats dnn_stats(StreamView s) {
  Dnn& dnn = dnn_of(s);
  const MutexLock lock(dnn.mutex);
  DnnStats now = dnn.stats;
  now.kept = dnn.known.size();
  return now;
}

#endif

}  // namespace locus::cuda
