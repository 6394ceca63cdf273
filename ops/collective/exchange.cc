#include <locus/ops/collective/exchange.h>

#include <map>
#include <optional>
#include <vector>

#include <locus/core/memory/storage.h>
#include <locus/core/parallel.h>
#include <locus/core/ranks/communicator.h>
#include <locus/core/shape.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/collective/tree.h>

namespace locus {
namespace {

// The kernel copies up to this many bytes. The copy engines are faster for more.
constexpr size_t kMostCopied = size_t{4} << 20;

bool sums(const Piece& p) { return p.parts.size() > 1; }

size_t bytes_in(const Tensor& x) { return bytes_of(x.impl().view.meta); }

// Whether the kernel may use x in place. It handles unaligned chunks element by element.
bool kernel_readable(const Tensor& x) {
  return x.contiguous() &&
         (bytes_in(x) <= kPeersChunk || reinterpret_cast<uintptr_t>(x.impl().view.data) % 16 == 0);
}

// All pieces are sums of one dtype, or all are copies.
bool on_devices(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside,
                Caller from) {
  std::vector<Piece> all;
  for (const Piece& p : pieces) {
    Piece& q = all.emplace_back(Piece{{}, p.result});
    if (!kernel_readable(p.result))
      q.result = allocate(p.result.context(), p.result.impl().view.meta);
    for (const Tensor& part : p.parts)
      q.parts.push_back(kernel_readable(part) ? part : row_major_copy(part, part.dtype()));
  }
  if (!exchange_on_devices(g, all, op, beside, from)) return false;
  for (size_t k = 0; k < all.size(); ++k)
    if (!all[k].result.is(pieces[k].result)) all[k].result.copyto(pieces[k].result, {}, from);
  return true;
}

}  // namespace

bool by_kernel(const Group& g, const Tensor& x) {
  return bytes_in(x) <= kMostCopied && communicator(g);
}

void exchange(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside,
              Caller from) {
  std::map<std::optional<DType>, std::vector<Piece>> together;
  std::vector<Piece> copies;
  for (const Piece& p : pieces) {
    if (p.result.size() == 0) continue;
    if (sums(p))
      together[p.result.dtype()].push_back(p);
    else if (by_kernel(g, p.result))
      together[std::nullopt].push_back(p);
    else
      copies.push_back(p);
  }
  for (const auto& [dtype, list] : together) {
    if (communicator(g) && on_devices(g, list, op, beside, from)) continue;
    for (const Piece& p : list)
      if (sums(p))
        combine_up(p.parts, op, from).copyto(p.result, {}, from);
      else
        copies.push_back(p);
  }
  // Each context's thread fetches its pieces.
  if (copies.empty()) return;
  on_threads(g.contexts(), [&](int i) {
    for (const Piece& p : copies)
      if (p.result.context() == g[i]) p.parts[0].copyto(p.result, {}, from);
  });
}

}  // namespace locus
