// Sums along axes, for host and device code: linear interpolation, the adjoints of rearrangements
// that repeat elements, and col2im. Each result adds its terms in a fixed order.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/walk.h>
#include <locus/ops/rearrange/rearrange_kernel.h>

namespace locus {

LOCUS_HD int64_t ceiling(int64_t a, int64_t b) { return a <= 0 ? -(-a / b) : (a - 1) / b + 1; }

// Adjoints along one axis. each(j, n, m, f) calls f(i, weight), i ascending, for each of the m
// elements that were made of element j of n.

struct PadGrad {
  static constexpr const char* kName = "pad_grad";
  int64_t before = 0, length = 1;  // length: n
  int32_t axis = 0;
  PadRule rule = PadRule::edge;

  LOCUS_HD void each(int64_t j, int64_t n, int64_t m, const auto& f) const {
    if (rule == PadRule::edge || n == 1) {
      const int64_t own = j + before, first = j == 0 ? 0 : own, last = j == n - 1 ? m - 1 : own;
      for (int64_t i = first; i <= last; ++i) f(i, 1.f);
      return;
    }
    const bool wraps = rule == PadRule::wrap, twice = rule == PadRule::symmetric;
    const int64_t period = wraps ? n : twice ? 2 * n : 2 * n - 2;
    const int64_t mirror = twice ? period - 1 - j : period - j;
    const bool has_mirror = !wraps && (twice || (j > 0 && j < n - 1));
    for (int64_t base = before - ceiling(before, period) * period; base < m; base += period) {
      if (base + j >= 0 && base + j < m) f(base + j, 1.f);
      if (has_mirror && base + mirror >= 0 && base + mirror < m) f(base + mirror, 1.f);
    }
  }
};

struct NearestGrad {
  static constexpr const char* kName = "resize_nearest_grad";
  int64_t length = 1;
  int32_t axis = 0;

  LOCUS_HD void each(int64_t j, int64_t n, int64_t m, const auto& f) const {
    for (int64_t i = ceiling(j * m, n); i < ceiling((j + 1) * m, n); ++i) f(i, 1.f);
  }
};

// Between element `first` and the next one, at `weight` of the distance.
struct Between {
  int64_t first;
  double weight;
};
struct Linear {
  int64_t length = 1;  // of the result's axis
  int32_t axis = 0;
  uint8_t align_corners = 0;

  // The position of element i of m in an axis of n is the fraction of two integers, so every
  // context computes the same one.
  LOCUS_HD Between between(int64_t i, int64_t n, int64_t m) const {
    int64_t above = align_corners ? i * (n - 1) : (2 * i + 1) * n - m;
    const int64_t below = align_corners ? (m > 1 ? m - 1 : 1) : 2 * m;
    if (above < 0) above = 0;
    const bool small = above < (int64_t{1} << 32) && below < (int64_t{1} << 32);
    const int64_t first =
        small ? static_cast<uint32_t>(above) / static_cast<uint32_t>(below) : above / below;
    if (first >= n - 1) return {n - 1, 0};
    return {first, static_cast<double>(above - first * below) / static_cast<double>(below)};
  }
};
struct LinearGrad : Linear {  // length: n
  static constexpr const char* kName = "resize_linear_grad";

  LOCUS_HD void each(int64_t j, int64_t n, int64_t m, const auto& f) const {
    int64_t i = 0;  // the first one that comes from j - 1 or later
    if (j > 1 && align_corners) i = ceiling((j - 1) * (m - 1), n - 1);
    if (j > 1 && !align_corners) i = ceiling(ceiling(2 * m * (j - 1) + m, n) - 1, 2);
    for (; i < m; ++i) {
      const Between b = between(i, n, m);
      if (b.first > j) return;
      if (b.first == j)
        f(i, 1 - b.weight);
      else if (b.first == j - 1 && b.weight > 0)
        f(i, b.weight);
    }
  }
};

// The adjoint of Windows.
struct Columns : Windows {
  static constexpr const char* kName = "col2im";
  int64_t size[3] = {1, 1, 1};  // the result's spatial lengths
};

// The spatial axes, filled up with axes of length 1 in front.
struct ColumnsWalk {
  int64_t planes = 1;
  int64_t n[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, windows[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1}, pad[3] = {};

  LOCUS_HD ColumnsWalk(const Columns& c, const Meta& in, const Meta& out) {
    const int axes = out.rank - 2;
    planes = out.shape[0] * out.shape[1];
    for (int s = 0; s < axes; ++s) {
      const int to = s + 3 - axes;
      n[to] = out.shape[2 + s];
      kernel[to] = c.kernel[s];
      windows[to] = in.shape[2 + axes + s];
      stride[to] = c.stride[s];
      dilate[to] = c.dilate[s];
      pad[to] = c.pad[s];
    }
  }
  LOCUS_HD int64_t elements() const { return n[0] * n[1] * n[2]; }
  LOCUS_HD int64_t window_count() const { return windows[0] * windows[1] * windows[2]; }
};

template <class Backend>
constexpr KernelList resample_kernels() {
  KernelList list;
  const auto add_grad = [&list](auto map) {
    list.add_each(decltype(map)::kName, kFloatDTypes,
                  [](auto d) { return Backend::template fold<CppTypeOf<d>, decltype(map)>; });
  };
  add_grad(PadGrad());
  add_grad(NearestGrad());
  add_grad(LinearGrad());
  list.add_each("resize_linear", kFloatDTypes,
                [](auto d) { return Backend::template linear<CppTypeOf<d>>; });
  list.add_each(Columns::kName, kFloatDTypes,
                [](auto d) { return Backend::template columns<CppTypeOf<d>>; });
  return list;
}

}  // namespace locus
