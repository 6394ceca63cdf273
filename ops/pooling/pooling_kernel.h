// Attributes and windows of the pooling family, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/divisor.h>

namespace locus {

struct PoolingAttrs {
  int64_t window[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {};  // per spatial axis
  int64_t size[3] = {};    // avg_pool_grad: the spatial lengths of the data
  int64_t result[3] = {};  // lengths if `adaptive`
  bool channels_last = false, ceil_mode = false, count_include_pad = true, adaptive = false;
};

// 0 if the window does not fit.
LOCUS_HD int64_t pooled_length(int64_t n, int64_t window, int64_t stride, int64_t padding,
                               bool ceil_mode) {
  const int64_t room = n + 2 * padding - window;
  if (room < 0) return 0;
  int64_t length = (ceil_mode ? room + stride - 1 : room) / stride + 1;
  while ((length - 1) * stride >= n + padding) --length;
  return length;
}

template <class I>
struct RangeOf {
  I begin, end;
  I count;  // divisor of a mean
};
using Range = RangeOf<int64_t>;

// Three spatial axes; missing ones have length 1 and come first. I is int64_t, or int32_t if
// narrow().
template <class I>
struct PoolingOf {
  I images = 0, channels = 0;
  I data[3], result[3], window[3], stride[3], padding[3];
  bool channels_last = false, count_include_pad = true, adaptive = false;
  DivisorOf<I> by_data[3], by_result[3], by_stride[3];  // divide by the same numbers

  LOCUS_HD I elements() const { return data[0] * data[1] * data[2]; }
  LOCUS_HD I positions() const { return result[0] * result[1] * result[2]; }

  // Window `at` along an axis.
  LOCUS_HD RangeOf<I> range(int axis, I at) const {
    const I n = data[axis], r = result[axis];
    if (adaptive) {
      const I begin = at * n / by_result[axis], end = ((at + 1) * n + r - 1) / by_result[axis];
      return {begin, end, end - begin};
    }
    const I from = at * stride[axis] - padding[axis], to = from + window[axis];
    const I padded = to < n + padding[axis] ? to : n + padding[axis];
    const I begin = from < 0 ? 0 : from, end = to < n ? to : n;
    return {begin, end, count_include_pad ? padded - from : end - begin};
  }
  // The windows that hold element i along an axis.
  LOCUS_HD RangeOf<I> windows(int axis, I i) const {
    const I n = data[axis], r = result[axis];
    if (adaptive) return {i * r / by_data[axis], ((i + 1) * r + n - 1) / by_data[axis], 0};
    const I from = i + padding[axis] - window[axis];
    const I begin = from < 0 ? 0 : from / by_stride[axis] + 1,
            end = (i + padding[axis]) / by_stride[axis] + 1;
    return {begin, end < r ? end : r, 0};
  }

  // Offset of channel c of image n at an element of the data, or of the result.
  LOCUS_HD I data_at(I n, I c, I at) const {
    return channels_last ? (n * elements() + at) * channels + c
                         : (n * channels + c) * elements() + at;
  }
  LOCUS_HD I result_at(I n, I c, I at) const {
    return channels_last ? (n * positions() + at) * channels + c
                         : (n * channels + c) * positions() + at;
  }
  LOCUS_HD void set_divisors() {
    for (int a = 0; a < 3; ++a) {
      by_data[a] = DivisorOf<I>(data[a]);
      by_result[a] = DivisorOf<I>(result[a]);
      by_stride[a] = DivisorOf<I>(stride[a]);
    }
  }
};
using Pooling = PoolingOf<int64_t>;

// Whether all indices, and intermediate values, are below 2^31.
LOCUS_HD bool narrow(const Pooling& p) {
  constexpr int64_t kMost = int64_t{1} << 29;
  const int64_t planes = p.images * p.channels;
  bool all = planes * p.elements() < kMost && planes * p.positions() < kMost;
  for (int a = 0; a < 3; ++a) {
    const int64_t n = p.data[a], r = p.result[a];
    all = all && (p.adaptive ? (n + 1) * (r + 1) < kMost
                             : p.window[a] < kMost && p.stride[a] < kMost && n < kMost);
  }
  return all;
}
LOCUS_HD PoolingOf<int32_t> narrowed(const Pooling& p) {
  PoolingOf<int32_t> q;
  const auto cut = [](int64_t v) { return static_cast<int32_t>(v); };
  q.images = cut(p.images);
  q.channels = cut(p.channels);
  for (int a = 0; a < 3; ++a) {
    q.data[a] = cut(p.data[a]);
    q.result[a] = cut(p.result[a]);
    q.window[a] = cut(p.window[a]);
    q.stride[a] = cut(p.stride[a]);
    q.padding[a] = cut(p.padding[a]);
  }
  q.channels_last = p.channels_last;
  q.count_include_pad = p.count_include_pad;
  q.adaptive = p.adaptive;
  q.set_divisors();
  return q;
}

// From the shapes of data and result.
LOCUS_HD Pooling make_pooling(const Meta& x, const Meta& y, const PoolingAttrs& a) {
  Pooling p;
  const int axes = x.rank - 2, missing = 3 - axes, first = a.channels_last ? 1 : 2;
  p.images = x.shape[0];
  p.channels = x.shape[a.channels_last ? x.rank - 1 : 1];
  p.channels_last = a.channels_last;
  p.count_include_pad = a.count_include_pad;
  p.adaptive = a.adaptive;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - missing;
    const bool there = axis >= 0;
    p.data[i] = there ? x.shape[first + axis] : 1;
    p.result[i] = there ? y.shape[first + axis] : 1;
    p.window[i] = there ? a.window[axis] : 1;
    p.stride[i] = there ? a.stride[axis] : 1;
    p.padding[i] = there ? a.padding[axis] : 0;
  }
  p.set_divisors();
  return p;
}

// Whether v replaces the maximum `best`. The first NaN is the maximum.
template <class T>
LOCUS_HD bool exceeds(T v, T best) {
  return !(v <= best) & (best == best);
}

// Implements the ops with a device's Engine<S>{call, pooling}:
//   max(x, y); average(x, y); average_grad(dy, dx); and at the maxima of x:
//   max_grad(x, dy, dx) adds dy; max_gather(x, g, y) reads g
template <template <class> class Engine>
constexpr KernelList pooling_kernels() {
  KernelList list;
  const auto add = [&](const char* op, auto run) {
    list.add_each(op, kFloatDTypes, [run](auto d) { return run(d); });
  };
  add("max_pool", [](auto d) -> Kernel {
    return [](const Call& call) {
      using S = CppTypeOf<decltype(d)::value>;
      const View *in = call.in, *out = call.out;
      Engine<S>{call, make_pooling(in[0].meta, out[0].meta, call.attributes<PoolingAttrs>())}.max(
          in[0].as<const S>(), out[0].as<S>());
    };
  });
  add("avg_pool", [](auto d) -> Kernel {
    return [](const Call& call) {
      using S = CppTypeOf<decltype(d)::value>;
      const View *in = call.in, *out = call.out;
      Engine<S>{call, make_pooling(in[0].meta, out[0].meta, call.attributes<PoolingAttrs>())}
          .average(in[0].as<const S>(), out[0].as<S>());
    };
  });
  add("avg_pool_grad", [](auto d) -> Kernel {
    return [](const Call& call) {
      using S = CppTypeOf<decltype(d)::value>;
      const View *in = call.in, *out = call.out;
      Engine<S>{call, make_pooling(out[0].meta, in[0].meta, call.attributes<PoolingAttrs>())}
          .average_grad(in[0].as<const S>(), out[0].as<S>());
    };
  });
  add("max_pool_grad", [](auto d) -> Kernel {
    return [](const Call& call) {
      using S = CppTypeOf<decltype(d)::value>;
      const View *in = call.in, *out = call.out;
      Engine<S>{call, make_pooling(in[0].meta, in[1].meta, call.attributes<PoolingAttrs>())}
          .max_grad(in[0].as<const S>(), in[1].as<const S>(), out[0].as<S>());
    };
  });
  add("max_pool_gather", [](auto d) -> Kernel {
    return [](const Call& call) {
      using S = CppTypeOf<decltype(d)::value>;
      const View *in = call.in, *out = call.out;
      Engine<S>{call, make_pooling(in[0].meta, out[0].meta, call.attributes<PoolingAttrs>())}
          .max_gather(in[0].as<const S>(), in[1].as<const S>(), out[0].as<S>());
    };
  });
  return list;
}

}  // namespace locus
