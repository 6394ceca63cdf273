// Calls of fused kernels that reduce rows.
#include <algorithm>

#include <locus/core/dtype.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/fuse/body.h>
#include <locus/ops/fuse/kernel.h>
#include <locus/ops/fuse/space.h>
#include <locus/ops/jit/loop_arguments.h>

namespace locus::fusion {
namespace {

constexpr int64_t kBlockThreads = 256;

// The rows' shape, and each array's view of them.
class RowArguments {
 public:
  RowArguments(const Call& call, const KernelCall& c)
      : space_{c.loop, c.row_axes}, views_(call), pack_(c.kernel->pack) {
    outer_.rank = c.loop.rank - c.row_axes;
    std::copy(c.loop.shape, c.loop.shape + outer_.rank, outer_.shape);
    rows_.n = space_.row_length();
    bool all_packed = rows_.n % pack_ == 0;
    for (size_t k = 0; k < views_.n; ++k) {
      const Meta& m = views_.view[k]->meta;
      const auto form =
          k < static_cast<size_t>(call.n_in) ? Space::Form::whole : *space_.form_of(m);
      View& v = each_[k] = space_.place(*views_.view[k], form);
      stride_[k] = *row_stride(space_, v);
      v.meta.rank = outer_.rank;
      pointers_[k] = &v;
      if (!c.kernel->of_row[k]) all_packed = all_packed && packed(v, stride_[k]);
    }
    rows_.packed = all_packed;
  }

  int64_t n() const { return outer_.size(); }
  int64_t length() const { return rows_.n; }
  int threads() const { return rows_.threads; }
  bool packed() const { return rows_.packed; }
  // Whether a team holds a row.
  bool fits() const { return rows_.threads * int64_t{kPacks} * pack_ >= rows_.n; }
  // The smallest team that holds a row, or the largest.
  void share_out() {
    while (rows_.threads < kTeam && !fits()) rows_.threads *= 2;
  }
  void fill(jit::ArgumentBytes& all, const KernelCall& c) const {
    all.add(&rows_, sizeof rows_);
    all.add(stride_, views_.n * sizeof *stride_);
    all.add(c.rest.data(), c.rest.size());
  }
  jit::LoopArguments loop() const {
    return jit::LoopArguments(outer_, {pointers_, views_.n}, jit::LoopAxes::any);
  }

 private:
  bool packed(const View& v, int64_t stride) const {
    if (stride != 1) return false;
    const auto bytes = static_cast<uintptr_t>(size_of(v.meta.dtype) * pack_);
    return reinterpret_cast<uintptr_t>(v.data) % bytes == 0 &&
           std::all_of(v.stride, v.stride + outer_.rank, [&](int64_t s) { return s % pack_ == 0; });
  }

  const Space space_;
  const KernelViews views_;
  const int pack_;
  Meta outer_;
  Rows rows_;
  View each_[jit::kMostOperands];
  const View* pointers_[jit::kMostOperands];
  int64_t stride_[jit::kMostOperands];
};

}  // namespace

void run_rows_on_host(const Call& call) {
  const KernelCall& c = call_of(call);
  const RowArguments rows(call, c);
  jit::LoopArguments arguments = rows.loop();
  arguments.fill();
  rows.fill(arguments, c);
  using Run = void (*)(const void* args, int64_t begin, int64_t end);
  const Kernel::Functions& functions = c.kernel->functions(call.stream.context);
  const auto run = reinterpret_cast<Run>(
      (rows.length() <= kHostPart ? functions.rows : functions.any_rows)->host);
  const int64_t grain = std::max<int64_t>(c.kernel->grain / rows.length(), 1);
  parallel_ranges(rows.n(), grain,
                  [&](int64_t begin, int64_t end) { run(arguments.data(), begin, end); });
}

void run_rows_on_gpu(const Call& call) {
  const KernelCall& c = call_of(call);
  RowArguments rows(call, c);
  rows.share_out();
  jit::LoopArguments arguments = rows.loop();
  arguments.fill();
  rows.fill(arguments, c);
  const int64_t threads = rows.threads() > 32 ? rows.threads() : kBlockThreads;
  const int64_t of_block = threads / rows.threads(), blocks = (rows.n() + of_block - 1) / of_block;
  if (blocks > INT32_MAX)
    throw ValueError(rows.n(), " rows need ", blocks, " blocks; expected fewer than 2^31");
  LaunchShape shape;
  shape.grid.x = blocks;
  shape.block.x = threads;
  const Kernel::Functions& functions = c.kernel->functions(call.stream.context);
  (rows.fits() && rows.packed() ? functions.rows : functions.any_rows)
      ->launch(call.stream, shape, arguments.data(), arguments.size());
}

}  // namespace locus::fusion
