#include <locus/ops/fuse/kernel.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/dtype.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/fuse/body.h>
#include <locus/ops/jit/loop_arguments.h>
#include <locus/ops/kernel/source.h>

namespace locus::fusion {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int kBlock = 256;  // threads

DType infer(std::span<const Meta>, const void* attributes, std::span<Meta> out) {
  const KernelCall& call = *static_cast<const KernelAttrs*>(attributes)->call;
  std::ranges::copy(call.outputs, out.begin());
  return f32;
}

void run_host(const Call& call) {
  const KernelCall& c = call_of(call);
  const KernelViews views(call);
  jit::LoopArguments arguments(c.loop, views.span(), jit::LoopAxes::any);
  arguments.fill();
  arguments.add(c.rest.data(), c.rest.size());
  using Run = void (*)(const void* args, int64_t begin, int64_t end, int64_t step);
  const auto run = reinterpret_cast<Run>(c.kernel->functions(call.stream.context).loop->host);
  const bool in_place = arguments.in_place();
  parallel_ranges(c.loop.size(), c.kernel->grain, [&](int64_t begin, int64_t end) {
    run(arguments.data(), begin, end, in_place ? end - begin : int64_t{jit::kStaged});
  });
}

void run_gpu(const Call& call) {
  const KernelCall& c = call_of(call);
  const Kernel::Functions& functions = c.kernel->functions(call.stream.context);
  const KernelViews views(call);
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
  cost += static_cast<int64_t>(body.reductions.size());
  return std::max<int64_t>(kGrain / cost, jit::kStaged);
}

std::vector<DType> outputs_of(const KernelBody& body) {
  std::vector<DType> all;
  for (const KernelBody::Output& out : body.outputs) all.push_back(out.dtype);
  return all;
}
std::vector<bool> of_row(const KernelBody& body) {
  std::vector<bool> all = body.of_row;
  for (const KernelBody::Output& out : body.outputs) all.push_back(out.of_row);
  return all;
}
std::string text_for(const std::string& name, const KernelBody& body, bool gpu) {
  return body.walks_rows() ? text_of_row_kernel(name, body, gpu) : text_of_kernel(name, body, gpu);
}

}  // namespace

int passes_of(const KernelBody& body) {
  std::vector<int> line(body.lines.size()), reduction(body.reductions.size());
  using Kind = KernelBody::Operand::Kind;
  const auto pass_of = [&](const KernelBody::Operand& o) {
    const auto at = static_cast<size_t>(o.index);
    return o.kind == Kind::line ? line[at] : o.kind == Kind::reduction ? reduction[at] + 1 : 0;
  };
  // Lines and reductions come in an order of their own each, and after their operands.
  for (size_t settled = 0; settled <= body.reductions.size(); ++settled) {
    for (size_t k = 0; k < line.size(); ++k)
      for (const KernelBody::Operand& o : body.lines[k].from)
        line[k] = std::max(line[k], pass_of(o));
    for (size_t k = 0; k < reduction.size(); ++k) reduction[k] = pass_of(body.reductions[k].from);
  }
  int last = 0;
  for (const int pass : reduction) last = std::max(last, pass + 1);
  return last + 1;
}

int pack_of(const KernelBody& body) {
  int widest = 1;
  for (size_t k = 0; k < body.arrays.size(); ++k)
    if (body.of_row.empty() || !body.of_row[k]) widest = std::max(widest, size_of(body.arrays[k]));
  for (const auto& out : body.outputs)
    if (!out.of_row) widest = std::max(widest, size_of(out.dtype));
  return 16 / widest;
}

bool KernelBody::walks_rows() const {
  return !reductions.empty() || std::ranges::any_of(outputs, &Output::of_row);
}

size_t KernelBody::argument_bytes() const {
  size_t bytes = (arrays.size() + outputs.size()) * sizeof(jit::Array) + 8 * numbers.size();
  for (const formula::Info* info : attributes) bytes += info->bytes;
  if (walks_rows()) bytes += sizeof(Rows) + 8 * (arrays.size() + outputs.size());
  return bytes;
}

DType KernelBody::dtype_of(const Operand& o) const {
  const auto at = static_cast<size_t>(o.index);
  switch (o.kind) {
    case Operand::Kind::array:
      return arrays[at];
    case Operand::Kind::number:
      return numbers[at];
    case Operand::Kind::line:
      return lines[at].dtype;
    case Operand::Kind::reduction:
      return reductions[at].dtype;
  }
  std::abort();
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
  std::string text = text_for(name, body, false);
  const MutexLock lock(all.mutex);
  auto& found = all.by_text[text];
  if (!found) found.reset(new Kernel(name, body, text));
  return *found;
}

Kernel::Kernel(const std::string& name, const KernelBody& body, std::string host_text)
    : text(std::move(host_text)),
      gpu_text(text_for(name, body, true)),
      truncates(body.truncates()),
      walks_rows(body.walks_rows()),
      outputs(outputs_of(body)),
      of_row(fusion::of_row(body)),
      pack(pack_of(body)),
      grain(grain_of(body)) {
  op.name = name;
  op.attrs_type = &typeid(KernelAttrs);
  op.infer = &infer;
  op.layout = Layout::strided;
  op.n_out = static_cast<int>(outputs.size());
  op.no_gradient = "the fused function has one";
  op.no_samples = "it is no op of the registry";
  op.kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(f32)] =
      walks_rows ? &run_rows_on_host : &run_host;
  op.kernels[static_cast<int>(DeviceType::gpu)][static_cast<int>(f32)] =
      walks_rows ? &run_rows_on_gpu : &run_gpu;
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
                    strided = op.name + "_strided", rows = op.name + "_rows",
                    any_rows = op.name + "_any";
  ProgramSource source{.name = op.name,
                       .text = gpu ? gpu_text : text,
                       .functions = {},
                       // On GPUs all functions of the text are device code. On the host integers
                       // wrap.
                       .options = {gpu ? "-default-device" : "-fwrapv"},
                       .headers = gpu ? gpu_headers() : formula_source()};
  // Without it g++ 12 makes trunc(-0.5f), which is -0, of float(int(-0.5f)), which is 0.
  if (!gpu && truncates) source.options.emplace_back("-ftrapping-math");
  if (walks_rows)
    source.functions = {rows, any_rows};
  else if (gpu)
    source.functions = {flat, strided};
  else
    source.functions = {loop};
  const KernelProgram& program = *compile_program(c, source);
  auto made = std::make_unique<const Functions>(Functions{program.find(loop), program.find(flat),
                                                          program.find(strided), program.find(rows),
                                                          program.find(any_rows)});
  const Functions* before = nullptr;  // of another thread
  if (!at.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}

}  // namespace locus::fusion
