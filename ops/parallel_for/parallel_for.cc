#include <locus/ops/parallel_for.h>

#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>

namespace locus {
namespace {

constexpr int kMostTensors = 32;

struct LoopAttrs {
  int64_t n = 0;
  uint32_t written = 0;  // bit k: tensor k is written
  detail::RunLoop run = nullptr;
  const void* f = nullptr;
};

// The operands are all tensors; the results are those that are written.
DType infer_loop(std::span<const Meta> in, const LoopAttrs& attrs, std::span<Meta> out) {
  for (size_t k = 0, next = 0; k < in.size(); ++k)
    if (attrs.written >> k & 1) out[next++] = in[k];
  return out[0].dtype;
}

void run(const Call& call) {
  const auto& attrs = call.attributes<LoopAttrs>();
  if (attrs.n > 0) attrs.run(call, attrs.n, attrs.f);
}

void check_tensors(std::span<const detail::LoopTensor> tensors) {
  if (tensors.size() > kMostTensors)
    throw ValueError("parallel_for: ", tensors.size(), " tensors; expected at most ", kMostTensors);
  for (size_t k = 0; k < tensors.size(); ++k) {
    const auto& [tensor, dtype, written, from] = tensors[k];
    if (!tensor->defined()) detail::throw_empty("parallel_for", text_of("tensor ", k));
    if (tensor->dtype() != dtype)
      throw DTypeError("parallel_for: tensor ", k, ", ", describe(*tensor), ", is ",
                       written ? "Writes" : "Reads", " of ", locus::name(dtype),
                       "; expected one dtype: cast it, "
                       "or change the function");
  }
}

}  // namespace

void detail::run_loop(int64_t n, std::span<const LoopTensor> tensors, std::shared_ptr<const void> f,
                      RunLoop on_host, RunLoop on_gpu) try {
  static const OpRef<LoopAttrs> op("parallel_for");
  const UserLine user_line(tensors[0].from);
  if (n < 0) throw ValueError("parallel_for: n is ", n, "; expected 0 or more");
  check_tensors(tensors);
  LoopAttrs attrs{.n = n, .f = f.get()};
  std::vector<Ref> in, out;
  for (const LoopTensor& t : tensors) {
    if (t.written) {
      attrs.written |= 1u << in.size();
      out.emplace_back(*t.tensor);
    }
    in.emplace_back(*t.tensor);
  }
  const Context c = common_context(op, in, in.size());
  const bool gpu = device(c).kernels() == DeviceType::gpu;
  if (gpu && !on_gpu)
    throw UnsupportedOnContext(
        "parallel_for: the function runs on hosts only, and the tensors are "
        "on ",
        c,
        "; expected a .cu file that nvcc compiles with "
        "--extended-lambda, and a lambda that begins with LOCUS_LAMBDA");
  attrs.run = gpu ? on_gpu : on_host;
  invoke_into(op, in, AttrsView::of(attrs, AttrsOwner{std::move(f)}), out);
} catch (const Error&) {
  rethrow_at(tensors[0].from);
}

void register_parallel_for() {
  OpDef<LoopAttrs> op("parallel_for");
  op.inputs(1, kMostTensors)
      .outputs(Op::kAny)
      .infer<&infer_loop>()
      .in_place()
      .no_gradient("nothing is known of the function")
      .no_samples("runs a function of the program: tests/user_kernels/parallel_for_test.cc");
  for (int d = 0; d < kNumDTypes; ++d)
    for (const DeviceType type : {DeviceType::cpu, DeviceType::gpu})
      op.kernel(type, static_cast<DType>(d), &run);
}

}  // namespace locus
