#include <locus/ops/index/counted.h>

#include <locus/core/op.h>
#include <locus/ops/copy.h>
#include <locus/ops/index/flat_index_kernel.h>

namespace locus::detail {

int64_t read_count(const Tensor& counts, Caller from) { return counts[-1].item<int64_t>(from); }

CountedMask::CountedMask(const Tensor& mask, Caller from)
    : mask_(mask.dtype() == bool_ ? mask : cast(mask, bool_)) {
  static const OpRef<> op("mask_offsets");
  offsets_ = invoke(op, {mask_});
  attrs_.count = read_count(offsets_, from);
}

Tensor CountedMask::positions() const {
  static const OpRef<MaskAttrs> op("mask_indices");
  return invoke(op, {mask_, offsets_}, attrs_);
}

Tensor CountedMask::select(const Tensor& x, Tensor out) const {
  static const OpRef<MaskAttrs> op("mask_select");
  return invoke(op, {x, mask_, offsets_}, attrs_, std::move(out));
}

Tensor unravel(const Tensor& flat, const Shape& shape, bool axes_last) {
  static const OpRef<UnravelAttrs> op("unravel_index");
  return invoke(op, {flat}, UnravelAttrs{make_meta(i64, shape), axes_last});
}

}  // namespace locus::detail
