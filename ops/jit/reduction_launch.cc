// Shapes of a call of a reduction kernel, its arguments, and its launch.
#include <algorithm>
#include <optional>

#include <locus/core/error.h>
#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/jit/arguments.h>
#include <locus/ops/jit/reduction.h>
#include <locus/ops/jit/reduction_definition.h>
#include <locus/ops/kernel/walk.h>
#include <locus/ops/reduce/reduce_shape.h>

namespace locus::jit {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements worth a thread of the CPU
constexpr int64_t kAtOnce = 8;       // elements that a thread of a GPU has in flight
constexpr int64_t kBlocks = 1024;    // for one output, or a few: enough to fill a GPU

DType infer(std::span<const Meta> in, const void* attributes, std::span<Meta> out) {
  const Attrs& attrs = *static_cast<const Attrs*>(attributes);
  const Specialization& s = *attrs.of;
  const size_t inputs = s.definition.inputs;
  Meta shape;
  broadcast(
      s, [&](size_t j) -> const Meta& { return in[j]; }, inputs, shape);
  if (tokens_of(reduction_of(s).texts.identity).empty()) need_elements(shape, attrs.reduce);
  const Meta result = reduced(shape, attrs.reduce, f32);
  if (attrs.targets == 0) {
    for (size_t k = 0; k < out.size(); ++k) {
      out[k] = result;
      out[k].dtype = s.types[inputs + k].dtype;
    }
    return f32;
  }
  size_t target = 0;
  for_tensors(s, s.types.size(), [&](size_t, const Parameter& p, size_t j) {
    if (!p.written) return;
    if (!same_shape(in[j], result))
      throw ShapeError("the output ", p.name, " has shape ", Shape(in[j]), "; expected ",
                       Shape(result), ", the shape of the result");
    out[target++] = in[j];
  });
  return f32;
}

// Which elements each output joins, and the arguments, laid out as the generated struct.
class Arguments : CallViews {
 public:
  explicit Arguments(const Call& call) : CallViews(call) {
    Meta shape;
    broadcast(
        s, [&](size_t j) -> const Meta& { return call.in[j].meta; }, s.definition.inputs, shape);
    for (size_t k = 0; k < s.types.size(); ++k) {
      if (s.definition.parameters[k].raw || !view[k]) continue;
      arrays_[n_arrays_++] = view[k];
      if (k < s.definition.inputs) ++n_in_;
    }
    // Axes are sorted by the strides of the last operand: the input with the most elements.
    main_ = std::max_element(
                arrays_, arrays_ + n_in_,
                [](const View* x, const View* y) { return x->meta.size() < y->meta.size(); }) -
            arrays_;
    int own = 0;  // axis of the outputs
    for (int a = 0; a < shape.rank; ++a) {
      const bool gone = attrs.reduce.axes >> a & 1;
      int64_t strides[kMost] = {};
      for (int k = 0; k < n_in_; ++k) strides[place(k)] = stride_along(*arrays_[k], shape, a);
      if (gone) {
        down_.add(shape.shape[a], strides);
      } else {
        for (int k = n_in_; k < n_arrays_; ++k) strides[place(k)] = arrays_[k]->stride[own];
        keep_.add(shape.shape[a], strides);
      }
      if (!gone || attrs.reduce.keepdims) ++own;
    }
    keep_.sort();
    keep_.tidy();
    if (!s.definition.ordered) down_.sort();
    down_.tidy();
    set_axes(r.keep, keep_.size, keep_.rank, keep_.shape);
    set_axes(r.reduce, down_.size, down_.rank, down_.shape);
  }

  // The number of outputs along the last axis, and the strides of the main input.
  int64_t inner() const { return keep_.shape[keep_.rank - 1]; }
  int64_t across() const { return keep_.stride[kMost - 1][keep_.rank - 1]; }
  int64_t down() const { return down_.stride[kMost - 1][down_.rank - 1]; }

  // Call it when r is set.
  const ArgumentBytes& fill() {
    bytes_.add(r);
    for (int k = 0; k < n_arrays_; ++k) {
      Array a;
      a.data = arrays_[k]->data;
      std::copy(keep_.stride[place(k)], keep_.stride[place(k)] + keep_.rank, a.stride);
      bytes_.add(a);
    }
    for (int k = 0; k < n_in_; ++k) {
      Steps steps;
      steps.dense = down_.size == 1 || down_.dense(place(k));
      std::copy(down_.stride[place(k)], down_.stride[place(k)] + down_.rank, steps.stride);
      bytes_.add(steps);
    }
    bytes_.add_rest(*this);
    return bytes_;
  }

  using CallViews::s;
  Reduction r;

 private:
  // Of array k in the walks: outputs, the other inputs, the main input.
  int place(int k) const {
    if (k == main_) return kMost - 1;
    if (k >= n_in_) return k - n_in_;
    return n_arrays_ - n_in_ + (k < main_ ? k : k - 1);
  }

  const View* arrays_[kMost];
  int n_arrays_ = 0, n_in_ = 0;
  int64_t main_;
  Walk<kMost> keep_, down_;
  ArgumentBytes bytes_;
};
static_assert(sizeof(Reduction) +
                  kMost * std::max(sizeof(Array) + sizeof(Steps), sizeof(Raw<char>)) <=
              4096);

void run_host(const Call& call) {
  Arguments a(call);
  Reduction& r = a.r;
  const auto& functions = a.s.functions(call.stream.context);
  const auto part_bytes =
      reinterpret_cast<int64_t (*)()>(functions[ReductionDefinition::kPartBytes]->host)();
  r.columns = a.inner() >= 8 && ((a.across() == 1 && a.down() != 1) || r.reduce.n < 16);
  if (r.columns) r.width = std::min<int64_t>(a.inner(), lanes_for(part_bytes));
  const int64_t units = r.keep.n / a.inner() * ((a.inner() + r.width - 1) / r.width);
  const int64_t work = r.reduce.n * r.width;  // of a unit
  const auto grain = [](int64_t each) {
    return std::max<int64_t>(kGrain / std::max<int64_t>(each, 1), 1);
  };
  const void* const args = a.fill().data();

  // If the units are too few for the threads, threads share the parts of a unit.
  if (units >= 2 * num_threads() || work <= 4 * kRowPart) {
    using Run = void (*)(const void* args, int64_t begin, int64_t end);
    const auto run = reinterpret_cast<Run>(functions[ReductionDefinition::kUnits]->host);
    parallel_ranges(units, grain(work), [&](int64_t begin, int64_t end) { run(args, begin, end); });
    return;
  }
  using Run = void (*)(const void* args, int64_t unit, int64_t begin, int64_t end, void* parts);
  using Join = void (*)(const void* args, int64_t unit, const void* parts);
  const auto run = reinterpret_cast<Run>(functions[ReductionDefinition::kParts]->host);
  const auto join = reinterpret_cast<Join>(functions[ReductionDefinition::kJoin]->host);
  const int64_t length = r.columns ? kColumnPart : kRowPart;
  const int64_t n = (r.reduce.n + length - 1) / length;
  const Scratch parts(call, static_cast<size_t>(n * r.width * part_bytes));
  for (int64_t u = 0; u < units; ++u) {
    parallel_ranges(n, grain(length * r.width),
                    [&](int64_t begin, int64_t end) { run(args, u, begin, end, parts.data()); });
    join(args, u, parts.data());
  }
}

// Bytes of a value of the reduce type, in which a GPU keeps parts.
int64_t part_bytes_on_gpu(const Specialization& s) {
  const std::string& type = s.definition.options.reduce_type;
  const auto known =
      type.empty() ? std::optional(s.types[s.definition.inputs].dtype) : dtype_named(type);
  if (!known) return kMostPart;
  return std::max(size_of(*known), 4);  // f16 and bf16 are f32
}

int power_of_two_above(int64_t n, int limit) {
  int p = 1;
  while (p < n && p < limit) p *= 2;
  return p;
}

void run_gpu(const Call& call) {
  Arguments a(call);
  Reduction& r = a.r;
  const int64_t count = r.reduce.n;
  const auto magnitude_of = [](int64_t v) { return v < 0 ? -v : v; };
  r.rows = r.keep.n == 1 || magnitude_of(a.down()) <= magnitude_of(a.across()) || a.inner() == 1;
  int outputs;  // of a block
  if (r.rows) {
    // Up to a warp with four elements per thread; beyond, threads with kAtOnce elements.
    r.lanes = std::max(power_of_two_above((count + 3) / 4, 32),
                       power_of_two_above((count + kAtOnce - 1) / kAtOnce, kBlockThreads));
    outputs = kBlockThreads / r.lanes;
  } else {
    outputs = power_of_two_above(r.keep.n, 32);
    r.lanes = power_of_two_above((count + 1) / 2, kBlockThreads / outputs);
  }
  const int64_t tiles = (r.keep.n + outputs - 1) / outputs, chunk = r.lanes * kAtOnce;
  if (tiles > INT32_MAX)
    throw ValueError(a.s.definition.name, ": ", r.keep.n,
                     " outputs need more blocks than a launch has; reduce parts of the tensor");
  // Few outputs: several blocks share each.
  int64_t splits = 1;
  if (tiles <= KernelFunction::kMostCounters && tiles * 2 <= kBlocks)
    splits = std::max<int64_t>(std::min(kBlocks / tiles, count / (2 * chunk)), 1);
  r.length = std::max<int64_t>((count + splits * chunk - 1) / (splits * chunk) * chunk, 1);
  splits = std::max<int64_t>((count + r.length - 1) / r.length, 1);

  const KernelFunction& function = *a.s.functions(call.stream.context)[0];
  std::optional<Scratch> parts;
  if (splits > 1) {
    const int64_t values = splits * r.keep.n;
    r.parts = parts.emplace(call, static_cast<size_t>(values * part_bytes_on_gpu(a.s))).data();
    r.finished = function.counters(call.stream, static_cast<int>(tiles));
  }
  LaunchShape shape;
  shape.grid = {.x = tiles, .y = splits};
  shape.block = r.rows ? Dim3{r.lanes, outputs} : Dim3{outputs, r.lanes};
  const ArgumentBytes& bytes = a.fill();
  function.launch(call.stream, shape, bytes.data(), bytes.size());
}

}  // namespace

void ReductionDefinition::set(Op& op) const {
  op.infer = &infer;
  op.kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(f32)] = &run_host;
  op.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] = &run_gpu;
}

}  // namespace locus::jit
