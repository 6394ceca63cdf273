#include <locus/ops/fuse/kernel.h>

#include <algorithm>
#include <map>
#include <utility>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/dtype.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/jit/loop_arguments.h>
#include <locus/ops/kernel/source.h>

namespace locus::fusion {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int kBlock = 256;  // threads

const KernelCall& call_of(const Call& call) { return *call.attributes<KernelAttrs>().call; }

DType infer(std::span<const Meta>, const void* attributes, std::span<Meta> out) {
  const KernelCall& call = *static_cast<const KernelAttrs*>(attributes)->call;
  for (size_t k = 0; k < out.size(); ++k) {
    out[k] = call.loop;
    out[k].dtype = call.kernel->outputs[k];
  }
  return f32;
}

// A call's views, outputs last.
struct Views {
  const View* view[jit::kMostOperands];
  size_t n = 0;

  explicit Views(const Call& call) {
    for (int i = 0; i < call.n_in; ++i) view[n++] = &call.in[i];
    for (int i = 0; i < call.n_out; ++i) view[n++] = &call.out[i];
  }
  std::span<const View* const> span() const { return {view, n}; }
};

void run_host(const Call& call) {
  const KernelCall& c = call_of(call);
  const Views views(call);
  jit::LoopArguments arguments(c.loop, views.span(), jit::LoopAxes::any);
  arguments.fill();
  arguments.add(c.rest.data(), c.rest.size());
  using Run = void (*)(const void* args, int64_t begin, int64_t end, int64_t step);
  const auto run = reinterpret_cast<Run>(c.kernel->functions(call.stream.context).host->host);
  const bool in_place = arguments.in_place();
  parallel_for(c.loop.size(), c.kernel->grain, [&](int64_t begin, int64_t end) {
    run(arguments.data(), begin, end, in_place ? end - begin : int64_t{jit::kStaged});
  });
}

void run_gpu(const Call& call) {
  const KernelCall& c = call_of(call);
  const Kernel::Functions& functions = c.kernel->functions(call.stream.context);
  const Views views(call);
  jit::LoopArguments arguments(c.loop, views.span(), jit::LoopAxes::any);
  const int pack = c.kernel->pack;
  const bool flat = arguments.one_axis();
  if (flat)
    arguments.fill_flat(pack);
  else
    arguments.fill();
  arguments.add(c.rest.data(), c.rest.size());
  const int64_t n = c.loop.size(), threads = flat ? (n + pack - 1) / pack : n;
  const int64_t blocks = (threads + kBlock - 1) / kBlock;
  if (blocks > INT32_MAX)
    throw ValueError(n, " elements need ", blocks, " blocks; expected fewer than 2^31");
  LaunchShape shape;
  shape.grid.x = blocks;
  shape.block.x = kBlock;
  (flat ? functions.flat : functions.strided)
      ->launch(call.stream, shape, arguments.data(), arguments.size());
}

int64_t grain_of(const KernelBody& body) {
  int64_t cost = 1;
  for (const KernelBody::Line& line : body.lines) cost += line.formula ? line.formula->cost : 1;
  return std::max<int64_t>(kGrain / cost, jit::kStaged);
}

std::vector<DType> outputs_of(const KernelBody& body) {
  std::vector<DType> all;
  for (const auto& out : body.outputs) all.push_back(out.second);
  return all;
}

}  // namespace

int pack_of(const KernelBody& body) {
  int widest = 1;
  for (const DType d : body.arrays) widest = std::max(widest, size_of(d));
  for (const auto& out : body.outputs) widest = std::max(widest, size_of(out.second));
  return 16 / widest;
}

size_t KernelBody::argument_bytes() const {
  size_t bytes = (arrays.size() + outputs.size()) * sizeof(jit::Array) + 8 * numbers.size();
  for (const formula::Info* info : attributes) bytes += info->bytes;
  return bytes;
}

DType KernelBody::dtype_of(const Operand& o) const {
  const auto at = static_cast<size_t>(o.index);
  return o.kind == Operand::Kind::array    ? arrays[at]
         : o.kind == Operand::Kind::number ? numbers[at]
                                           : lines[at].dtype;
}

bool KernelBody::truncates() const {
  return std::ranges::any_of(lines, [&](const Line& l) {
    return !l.formula && !is_floating(l.dtype) && is_floating(dtype_of(l.from[0]));
  });
}

const Kernel& Kernel::of(const std::string& name, const KernelBody& body) {
  struct All {
    Mutex mutex;
    std::map<std::string, std::unique_ptr<const Kernel>> by_text LOCUS_GUARDED_BY(mutex);
  };
  static All& all = *new All;  // never destroyed, as ops are
  std::string text = text_of_kernel(name, body, false);
  const MutexLock lock(all.mutex);
  auto& found = all.by_text[text];
  if (!found) found.reset(new Kernel(name, body, text));
  return *found;
}

Kernel::Kernel(const std::string& name, const KernelBody& body, std::string host_text)
    : text(std::move(host_text)),
      gpu_text(text_of_kernel(name, body, true)),
      truncates(body.truncates()),
      outputs(outputs_of(body)),
      pack(pack_of(body)),
      grain(grain_of(body)) {
  op.name = name;
  op.attrs_type = &typeid(KernelAttrs);
  op.infer = &infer;
  op.layout = Layout::strided;
  op.n_out = static_cast<int>(outputs.size());
  op.no_gradient = "the fused function has one";
  op.no_samples = "it is no op of the registry";
  op.kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(f32)] = &run_host;
  op.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] = &run_gpu;
}

const Kernel::Functions& Kernel::functions(Context c) const {
  const DeviceType kind = device(c).kernels();
  if (kind != DeviceType::cpu && (kind != DeviceType::gpu || c.type != DeviceType::gpu))
    throw UnsupportedOnContext(op.name, ": fused kernels run on cpu and gpu contexts, not on ", c);
  auto& at = kind == DeviceType::cpu ? host_ : gpu_[c.index];
  const Functions* const made = at.load(std::memory_order_acquire);
  return made ? *made : build(c, at);
}

const Kernel::Functions& Kernel::build(Context c, std::atomic<const Functions*>& at) const {
  const bool gpu = &at != &host_;
  const std::string loop = op.name + "_loop", flat = op.name + "_flat",
                    strided = op.name + "_strided";
  ProgramSource source{.name = op.name,
                       .text = gpu ? gpu_text : text,
                       .functions = {},
                       // On GPUs all functions of the text are device code. On the host integers
                       // wrap.
                       .options = {gpu ? "-default-device" : "-fwrapv"},
                       .headers = gpu ? gpu_headers() : formula_source()};
  // Without it g++ 12 makes trunc(-0.5f), which is -0, of float(int(-0.5f)), which is 0.
  if (!gpu && truncates) source.options.emplace_back("-ftrapping-math");
  if (gpu)
    source.functions = {flat, strided};
  else
    source.functions = {loop};
  const KernelProgram& program = *compile_program(c, source);
  auto made = std::make_unique<const Functions>(
      Functions{program.find(loop), program.find(flat), program.find(strided)});
  const Functions* before = nullptr;  // of another thread
  if (!at.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}

}  // namespace locus::fusion
