// Options about spatial axes, for convolutions and poolings: lengths along axes, and the order of
// axes.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string_view>

namespace locus {

inline constexpr int kMaxSpatial = 3;

// A length along each spatial axis: {5, 3}. A single length, 5, holds for all axes.
class Extent {
 public:
  template <std::integral I>
  constexpr Extent(I all) : lengths_{static_cast<int64_t>(all)} {}
  Extent(std::initializer_list<int64_t> lengths);  // 1 to 3, else ShapeError
  explicit Extent(std::span<const int64_t> lengths);

  int size() const { return n_; }
  // Writes `axes` lengths to `out`. If there are neither 1 nor `axes`, throws ShapeError with `who`
  // and `what`.
  void spread(int axes, std::string_view who, const char* what, int64_t (&out)[kMaxSpatial]) const;

 private:
  int64_t lengths_[kMaxSpatial] = {};
  int n_ = 1;
};

// Whether the channels are the last axis. `layout`: "" or NCW, NCHW, NCDHW; NWC, NHWC, NDHWC. Other
// layouts are a ValueError that names `who`.
bool channels_last(std::string_view layout, int axes, std::string_view who);
std::string_view layout_name(bool channels_last, int axes);

}  // namespace locus
