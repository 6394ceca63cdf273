#include <locus/ops/spatial_axes.h>

#include <cstdint>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/ops/named.h>

namespace locus {

Extent::Extent(std::initializer_list<int64_t> lengths)
    : Extent(std::span(lengths.begin(), lengths.size())) {}
Extent::Extent(std::span<const int64_t> lengths) : n_(static_cast<int>(lengths.size())) {
  if (n_ < 1 || n_ > kMaxSpatial)
    throw ShapeError("expected 1 to ", kMaxSpatial, " lengths, one per spatial axis, got ", n_);
  std::copy(lengths.begin(), lengths.end(), lengths_);
}

ops::Argument::operator Extent() const {
  const std::vector<int64_t> lengths = *this;
  return Extent(std::span(lengths));
}

void Extent::spread(int axes, std::string_view who, const char* what,
                    int64_t (&out)[kMaxSpatial]) const {
  if (n_ != 1 && n_ != axes)
    throw ShapeError(who, ": ", what, ": expected a number or ", axes,
                     " of them, one per spatial axis, got ", n_);
  for (int i = 0; i < axes; ++i) {
    out[i] = lengths_[n_ == 1 ? 0 : i];
    if (out[i] < INT32_MIN || out[i] > INT32_MAX)
      throw ValueError(who, ": ", what, ": expected lengths below 2^31, got ", out[i]);
  }
}

std::string_view layout_name(bool channels_last, int axes) {
  static constexpr std::string_view kNames[][2] = {
      {"NCW", "NWC"}, {"NCHW", "NHWC"}, {"NCDHW", "NDHWC"}};
  return kNames[axes - 1][channels_last];
}

bool channels_last(std::string_view layout, int axes, std::string_view who) {
  const std::string_view first = layout_name(false, axes), last = layout_name(true, axes);
  if (layout.empty() || layout == first) return false;
  if (layout == last) return true;
  throw ValueError(who, ": layout \"", layout, "\"; expected ", first, " or ", last);
}

}  // namespace locus
