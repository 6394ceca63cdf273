// What convolutions and poolings say about an image's axes: lengths, one for each or one for all,
// and the order of the axes.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string_view>

namespace locus {

inline constexpr int kMaxSpatial = 3;

// 5, or {5, 3}: a length along each spatial axis; a single one holds for all of them.
class Extent {
 public:
  template <std::integral I>
  constexpr Extent(I all) : lengths_{static_cast<int64_t>(all)} {}
  Extent(std::initializer_list<int64_t> lengths);  // 1 to 3, else ShapeError

  // Of `axes` axes; ShapeError naming `who` and `what` where there are neither 1 nor `axes`.
  void spread(int axes, std::string_view who, const char* what, int64_t (&out)[kMaxSpatial]) const;

 private:
  int64_t lengths_[kMaxSpatial] = {};
  int n_ = 1;
};

// Whether the channels are the last axis. `layout`: "" or NCW, NCHW, NCDHW; NWC, NHWC, NDHWC.
// Throws ValueError naming `who` and those of that many spatial axes.
bool channels_last(std::string_view layout, int axes, std::string_view who);
std::string_view layout_name(bool channels_last, int axes);

}  // namespace locus
