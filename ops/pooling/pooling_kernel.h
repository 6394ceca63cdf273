// Attributes of the pooling family, and which elements are in which window: for the host and for
// nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>

namespace locus {

struct PoolingAttrs {
  int64_t window[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {};  // a spatial axis each
  int64_t size[3] = {};    // avg_pool_grad: the spatial lengths of the data
  int64_t result[3] = {};  // of `adaptive` windows
  bool channels_last = false, ceil_mode = false, count_include_pad = true, adaptive = false;
};

// 0 where the window does not fit.
LOCUS_HD int64_t pooled_length(int64_t n, int64_t window, int64_t stride, int64_t padding,
                               bool ceil_mode) {
  const int64_t room = n + 2 * padding - window;
  if (room < 0) return 0;
  int64_t length = (ceil_mode ? room + stride - 1 : room) / stride + 1;
  while ((length - 1) * stride >= n + padding) --length;
  return length;
}

struct Range {
  int64_t begin, end;
  int64_t count;  // what a mean divides by
};

// Three spatial axes, of which the first may have length 1.
struct Pooling {
  int64_t images = 0, channels = 0;
  int64_t data[3], result[3], window[3], stride[3], padding[3];
  bool channels_last = false, count_include_pad = true, adaptive = false;

  LOCUS_HD int64_t elements() const { return data[0] * data[1] * data[2]; }
  LOCUS_HD int64_t positions() const { return result[0] * result[1] * result[2]; }

  // Window `at` along an axis.
  LOCUS_HD Range range(int axis, int64_t at) const {
    const int64_t n = data[axis], r = result[axis];
    if (adaptive) {
      const int64_t begin = at * n / r, end = ((at + 1) * n + r - 1) / r;
      return {begin, end, end - begin};
    }
    const int64_t from = at * stride[axis] - padding[axis], to = from + window[axis];
    const int64_t padded = to < n + padding[axis] ? to : n + padding[axis];
    const int64_t begin = from < 0 ? 0 : from, end = to < n ? to : n;
    return {begin, end, count_include_pad ? padded - from : end - begin};
  }
  // The windows that hold element i along an axis.
  LOCUS_HD Range windows(int axis, int64_t i) const {
    const int64_t n = data[axis], r = result[axis];
    if (adaptive) return {i * r / n, ((i + 1) * r + n - 1) / n, 0};
    const int64_t from = i + padding[axis] - window[axis];
    const int64_t begin = from < 0 ? 0 : from / stride[axis] + 1,
                  end = (i + padding[axis]) / stride[axis] + 1;
    return {begin, end < r ? end : r, 0};
  }

  // Offsets of channel c of image n at an element of the data, and of the result.
  LOCUS_HD int64_t data_at(int64_t n, int64_t c, int64_t at) const {
    return channels_last ? (n * elements() + at) * channels + c
                         : (n * channels + c) * elements() + at;
  }
  LOCUS_HD int64_t result_at(int64_t n, int64_t c, int64_t at) const {
    return channels_last ? (n * positions() + at) * channels + c
                         : (n * channels + c) * positions() + at;
  }
};

// Of the data's, and the result's shapes.
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
  return p;
}

// Whether v is the maximum of what was seen and itself: the first NaN is.
template <class T>
LOCUS_HD bool exceeds(T v, T best) {
  return !(v <= best) & (best == best);
}

// The ops in terms of an Engine<S>{call, pooling} of one kind of device:
//   max(x, y); average(x, y); average_grad(dy, dx), and with the places of the maxima of x
//   max_grad(x, dy, dx): dy added there; max_gather(x, g, y): g read there
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
