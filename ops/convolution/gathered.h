// How a GPU computes a convolution and its gradients: as products c = a · b. Matrix a lies in
// memory; b is gathered from an array as it is read. Numbers only, so that tests run anywhere.

//                    a, m x k  b, k x n  rows          columns            depths (summed over)
//   forward          weight    data      out channels  results            in channels, taps
//   data gradient    weight    dy        in channels   data elements      out channels, taps
//   weight gradient  dy        data      out channels  in channels, taps  results

// A column or depth has four digits: image or channel, and three spatial axes. Each digit adds a
// stride to an element's offset. An element of b is 0 if its sum along an axis is outside the
// array.
// Taps that read only padding are left out. If an image has few places and their taps differ, each
// place is a product.
// With a stride, the data gradient is one product per remainder of the data elements. Each has its
// own taps, which skip the gaps.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>

#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/kernel/divisor.h>

namespace locus::cuda {

struct Offset {
  int32_t base = 0, stride[4] = {};  // elements; a stride for each digit
};
// Columns or depths. Digit 0 is the slowest.
struct Side {
  int count = 1;
  Divisor length[3];  // of digits 1 to 3
  int first = 1;      // digit of the first spatial axis: 1, or 0 if the channel is last
  int32_t base[3] = {}, step[3] = {};  // along the spatial axes of b's array
  Offset b, other;                     // other: of a for depths, of c for columns
};

struct GatheredProduct {
  Side column, depth;
  int m = 0;
  int32_t a_row = 0, c_row = 0;
  int32_t extent[3] = {};  // of b's array
  bool inside = false;     // no element of b is outside the array
};
inline constexpr int kMostProducts = 9;

// The products of one launch, each for all groups, and their memory layout.
struct GatheredProducts {
  GatheredProduct each[kMostProducts];
  int n = 0, groups = 1;
  int64_t a_group = 0, b_group = 0, c_group = 0;     // distance between groups
  bool a_along_depth = true, b_along_depth = false;  // direction of contiguous elements
  bool whole = true;                                 // the products cover all of c
};

namespace gathered {

// Positions along one spatial axis: base + step * i for i < count, and the same in the other
// memory.
struct Axis {
  int64_t count = 1, base = 0, step = 0, other_base = 0, other_step = 0;
};

struct Layout {
  int64_t channel, image, axis[3];  // strides
};
inline Layout layout(int64_t channels, const int64_t (&n)[3], bool channels_last) {
  const int64_t size = n[0] * n[1] * n[2], unit = channels_last ? channels : 1;
  return {channels_last ? 1 : size, channels * size, {n[1] * n[2] * unit, n[2] * unit, unit}};
}

// `slow` images or channels, with these strides in b and in the other memory. If `last`, channels
// are the fastest digit.
inline Side side(const Axis (&axes)[3], int64_t slow, int64_t slow_b, int64_t slow_other, bool last,
                 const Layout& b, const Layout& other) {
  Side s;
  int64_t length[4], count = slow;
  s.first = last ? 0 : 1;
  const int digit = last ? 3 : 0;
  length[digit] = slow;
  s.b.stride[digit] = static_cast<int32_t>(slow_b);
  s.other.stride[digit] = static_cast<int32_t>(slow_other);
  int64_t b_base = 0, other_base = 0;
  for (int a = 0; a < 3; ++a) {
    const Axis& x = axes[a];
    length[s.first + a] = x.count;
    count *= x.count;
    s.base[a] = static_cast<int32_t>(x.base);
    s.step[a] = static_cast<int32_t>(x.step);
    s.b.stride[s.first + a] = static_cast<int32_t>(x.step * b.axis[a]);
    s.other.stride[s.first + a] = static_cast<int32_t>(x.other_step * other.axis[a]);
    b_base += x.base * b.axis[a];
    other_base += x.other_base * other.axis[a];
  }
  s.b.base = static_cast<int32_t>(b_base);
  s.other.base = static_cast<int32_t>(other_base);
  s.count = static_cast<int>(count);
  for (int d = 0; d < 3; ++d) s.length[d] = Divisor(length[d + 1] > 0 ? length[d + 1] : 1);
  return s;
}

// Removes leading and trailing positions of `a` that are outside [0, extent) for every position of
// `with`.
inline void trim_to_overlap(Axis& a, const Axis& with, int64_t extent) {
  const auto overlaps = [&](int64_t i) {
    const int64_t at = a.base + i * a.step + with.base, far = at + (with.count - 1) * with.step;
    // Positions that a step of `with` skips count as overlap: a few more zeros.
    return with.count > 0 && (at < far ? at : far) < extent && (at < far ? far : at) >= 0;
  };
  int64_t begin = 0, end = a.count;
  while (begin < end && !overlaps(begin)) ++begin;
  while (end > begin && !overlaps(end - 1)) --end;
  a.base += begin * a.step;
  a.other_base += begin * a.other_step;
  a.count = end - begin;
}

struct Layouts {
  Layout x, y, w;

  explicit Layouts(const Convolution& g)
      : x(layout(g.groups * g.in, g.data, g.channels_last)),
        y(layout(g.groups * g.out, g.result, g.channels_last)),
        w(layout(g.in, g.kernel, g.channels_last)) {}
};
// Without products yet. a is the weight; b_group and c_group are distances between groups.
inline GatheredProducts products(const Convolution& g, int64_t b_group, int64_t c_group) {
  GatheredProducts all;
  all.groups = static_cast<int>(g.groups);
  all.a_group = g.out * g.depth();
  all.b_group = b_group;
  all.c_group = c_group;
  return all;
}

// The number of products along each axis. An axis is cut into its places if these are few, and if
// the products then meet at most three quarters of the positions `with`.
struct Cut {
  int64_t pieces[3] = {1, 1, 1};

  int64_t products() const { return pieces[0] * pieces[1] * pieces[2]; }
  // Restricts the axes to product i.
  void take(int64_t i, Axis (&axes)[3]) const {
    for (int a = 2; a >= 0; --a) {
      if (pieces[a] > 1) axes[a] = place(axes[a], i % pieces[a]);
      i /= pieces[a];
    }
  }
  static Axis place(const Axis& a, int64_t i) {
    return {1, a.base + i * a.step, a.step, a.other_base + i * a.other_step, a.other_step};
  }
};
// `slow`: the columns' other factor. If it is small, nothing is cut.
inline Cut cut(const Axis (&axes)[3], const Axis (&with)[3], const int64_t (&extent)[3],
               int64_t slow) {
  Cut c;
  int64_t alone = 1, together = 1;
  for (int a = 0; a < 3; ++a) {
    const int64_t n = axes[a].count, all = n * with[a].count;
    int64_t overlap = 0;
    for (int64_t i = 0; i < n && n <= kMostProducts; ++i) {
      Axis w = with[a];
      trim_to_overlap(w, Cut::place(axes[a], i), extent[a]);
      overlap += w.count;
    }
    const bool cuts = n > 1 && c.products() * n <= kMostProducts && overlap < all;
    if (cuts) c.pieces[a] = n;
    alone *= cuts ? overlap : all;
    together *= all;
  }
  return slow >= 32 && 4 * alone <= 3 * together ? c : Cut{};
}

inline bool inside(const Axis (&axes)[3], const Axis (&with)[3], const int64_t (&extent)[3]) {
  const auto low = [](const Axis& x) {
    return x.base + std::min<int64_t>(0, (x.count - 1) * x.step);
  };
  const auto high = [](const Axis& x) {
    return x.base + std::max<int64_t>(0, (x.count - 1) * x.step);
  };
  bool all = true;
  for (int a = 0; a < 3; ++a)
    all = all && low(axes[a]) + low(with[a]) >= 0 && high(axes[a]) + high(with[a]) < extent[a];
  return all;
}

// Axes of results and taps, without taps that read only padding.
struct Axes {
  Axis results[3], taps[3];
  bool all_taps = true;

  explicit Axes(const Convolution& g) {
    for (int a = 0; a < 3; ++a) {
      results[a] = {g.result[a], -g.padding[a], g.stride[a], 0, 1};
      taps[a] = {g.kernel[a], 0, g.dilation[a], 0, 1};
      trim_to_overlap(taps[a], results[a], g.data[a]);
      all_taps = all_taps && taps[a].count == g.kernel[a];
    }
  }
};

// Whether channels are contiguous.
inline bool channels_together(const int64_t (&n)[3], bool last) {
  return last || n[0] * n[1] * n[2] == 1;
}

inline void set_extent(GatheredProduct& p, const int64_t (&n)[3]) {
  for (int a = 0; a < 3; ++a) p.extent[a] = static_cast<int32_t>(n[a]);
}

}  // namespace gathered

// Whether 32-bit indices suffice for so many images.
inline bool gatherable(const Convolution& g, int64_t images) {
  const auto fits = [](double n) { return n < 2147483648.0; };
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  double reach = 0;
  for (int a = 0; a < 3; ++a)
    reach +=
        number(g.data[a]) + 2 * number(g.padding[a]) + number(g.kernel[a]) * number(g.dilation[a]);
  return fits(4 * reach) && fits(number(images * g.groups * g.in) * number(g.elements())) &&
         fits(number(images * g.groups * g.out) * number(g.positions())) &&
         fits(number(g.groups * g.out) * number(g.depth()));
}

// Whether c's columns are groups of four contiguous elements, at multiples of four.
inline bool in_quads(const Side& columns) {
  const Offset& c = columns.other;
  int64_t run = 1;
  int digit = 3;
  for (; digit > 0; --digit) {
    const int64_t length = columns.length[digit - 1].value;
    if (length == 1) continue;
    if (c.stride[digit] != run) break;
    run *= length;
  }
  bool quads = run % 4 == 0 && c.base % 4 == 0;
  for (; digit >= 0; --digit) quads = quads && c.stride[digit] % 4 == 0;
  return quads && columns.count % 4 == 0;
}

inline GatheredProducts forward_products(const Convolution& g) {
  const gathered::Axes axes(g);
  const auto [x, y, w] = gathered::Layouts(g);
  const gathered::Cut cut = gathered::cut(axes.results, axes.taps, g.data, g.images);
  GatheredProducts all = gathered::products(g, g.in * x.channel, g.out * y.channel);
  for (int64_t i = 0; i < cut.products(); ++i) {
    GatheredProduct& p = all.each[all.n++];
    gathered::Axes own = axes;
    cut.take(i, own.results);
    for (int a = 0; a < 3; ++a) gathered::trim_to_overlap(own.taps[a], own.results[a], g.data[a]);
    p.column = gathered::side(own.results, g.images, x.image, y.image, false, x, y);
    p.depth = gathered::side(own.taps, g.in, x.channel, w.channel, g.channels_last, x, w);
    p.m = static_cast<int>(g.out);
    p.a_row = static_cast<int32_t>(g.depth());
    p.c_row = static_cast<int32_t>(y.channel);
    p.inside = gathered::inside(own.results, own.taps, g.data);
    gathered::set_extent(p, g.data);
  }
  all.b_along_depth = all.n > 1 || gathered::channels_together(g.data, g.channels_last);
  return all;
}

// The forward product with columns and depths exchanged. `cuts`: each tap may be a product. Then
// rows are summed over different depths.
inline GatheredProducts weight_products(const Convolution& g, bool cuts) {
  const gathered::Axes axes(g);
  const auto [x, y, w] = gathered::Layouts(g);
  const gathered::Cut cut =
      cuts ? gathered::cut(axes.taps, axes.results, g.data, g.in) : gathered::Cut{};
  GatheredProducts all = gathered::products(g, g.in * x.channel, g.out * g.depth());
  all.a_group = g.out * y.channel;
  for (int64_t i = 0; i < cut.products(); ++i) {
    GatheredProduct& p = all.each[all.n++];
    gathered::Axes own = axes;
    cut.take(i, own.taps);
    if (cut.products() > 1)
      for (int a = 0; a < 3; ++a) gathered::trim_to_overlap(own.results[a], own.taps[a], g.data[a]);
    p.column = gathered::side(own.taps, g.in, x.channel, w.channel, g.channels_last, x, w);
    p.depth = gathered::side(own.results, g.images, x.image, y.image, false, x, y);
    p.m = static_cast<int>(g.out);
    p.a_row = static_cast<int32_t>(y.channel);
    p.c_row = static_cast<int32_t>(g.depth());
    p.inside = gathered::inside(own.results, own.taps, g.data);
    gathered::set_extent(p, g.data);
  }
  all.a_along_depth = !gathered::channels_together(g.result, g.channels_last);
  all.b_along_depth = !gathered::channels_together(g.data, g.channels_last);
  all.whole = axes.all_taps;
  return all;
}

// The number of products of the data gradient.
inline int64_t data_phases(const Convolution& g) { return g.stride[0] * g.stride[1] * g.stride[2]; }

// Products [first, first + kMostProducts) of data_phases().
inline GatheredProducts data_products(const Convolution& g, int64_t first) {
  using gathered::Axis;
  const auto [x, y, w] = gathered::Layouts(g);
  GatheredProducts all = gathered::products(g, g.out * y.channel, g.in * x.channel);
  const int64_t end = std::min(first + kMostProducts, data_phases(g));
  for (int64_t phase = first; phase < end; ++phase) {
    Axis elements[3], taps[3];
    int64_t rest = phase;
    for (int a = 2; a >= 0; --a) {
      const int64_t stride = g.stride[a], from = rest % stride;
      rest /= stride;
      // Elements from + stride * j; taps first_tap + gap * i meet results j + (place - shift * i).
      const int64_t gap = stride / std::gcd(stride, g.dilation[a]);
      int64_t tap = 0;
      while (tap < gap && (from + g.padding[a] - tap * g.dilation[a]) % stride != 0) ++tap;
      const int64_t taps_met =
          tap < gap && tap < g.kernel[a] ? (g.kernel[a] - 1 - tap) / gap + 1 : 0;
      const int64_t place = (from + g.padding[a] - tap * g.dilation[a]) / stride;
      const int64_t count = from < g.data[a] ? (g.data[a] - 1 - from) / stride + 1 : 0;
      elements[a] = {count, taps_met > 0 ? place : 0, 1, from, stride};
      taps[a] = {taps_met, 0, -(gap * g.dilation[a] / stride), tap, gap};
      gathered::trim_to_overlap(taps[a], elements[a], g.result[a]);
    }
    const gathered::Cut cut =
        data_phases(g) == 1 ? gathered::cut(elements, taps, g.result, g.images) : gathered::Cut{};
    for (int64_t i = 0; i < cut.products(); ++i) {
      GatheredProduct& p = all.each[all.n++];
      Axis own[3], overlap[3];
      std::copy(elements, elements + 3, own);
      std::copy(taps, taps + 3, overlap);
      cut.take(i, own);
      for (int a = 0; a < 3; ++a) gathered::trim_to_overlap(overlap[a], own[a], g.result[a]);
      p.column = gathered::side(own, g.images, y.image, x.image, false, y, x);
      p.depth = gathered::side(overlap, g.out, y.channel, g.depth(), g.channels_last, y, w);
      p.m = static_cast<int>(g.in);
      p.a_row = static_cast<int32_t>(w.channel);
      p.c_row = static_cast<int32_t>(x.channel);
      p.inside = gathered::inside(own, overlap, g.result);
      gathered::set_extent(p, g.result);
    }
  }
  all.a_along_depth = !gathered::channels_together(g.kernel, g.channels_last);
  all.b_along_depth =
      (data_phases(g) == 1 && all.n > 1) || gathered::channels_together(g.result, g.channels_last);
  return all;
}

}  // namespace locus::cuda
