// Staging for convolutions on the host. Images of any layout and dtype become padded planes in the
// compute type, so products need no border checks. Also divides work among threads. Included by
// *_cpu.cc only.
#pragma once

#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/matmul/matmul_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

// The part of a padded channel under the kernels of results [begin, end) of the slowest axis.
struct Planes {
  Planes(const Convolution& g, int slowest, int64_t begin, int64_t end) {
    for (int a = 0; a < 3; ++a) {
      const int64_t from = a == slowest ? begin : 0, to = a == slowest ? end : g.result[a];
      first[a] = from * g.stride[a] - g.padding[a];
      size[a] = (to - from - 1) * g.stride[a] + kernel_span(g.kernel[a], g.dilation[a]);
    }
  }
  int64_t first[3];  // in the data; padding if < 0 or past the end
  int64_t size[3];
  int64_t volume() const { return Convolution::product(size); }
  int64_t at(int64_t i, int64_t j, int64_t k) const { return (i * size[1] + j) * size[2] + k; }
};

LOCUS_HD int64_t clamp(int64_t v, int64_t low, int64_t high) {
  return v < low ? low : v > high ? high : v;
}

// Offsets of several arrays in one Scratch. Add all arrays first.
class Parts {
 public:
  template <class T>
  size_t add(int64_t n) {
    const size_t at = bytes_;
    bytes_ += padded(static_cast<size_t>(n) * sizeof(T));
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// `tasks` divided among as many threads as the work is worth. Each thread has a slot of memory.
class TaskPartition {
 public:
  TaskPartition(const Convolution& g, int64_t tasks)
      : tasks_(tasks), each_((tasks + threads(g) - 1) / threads(g)) {}
  static int threads(const Convolution& g) {
    return threads_for(g.images * g.positions(), g.out * g.groups, g.depth());
  }
  int64_t slots() const { return tasks_ == 0 ? 0 : (tasks_ + each_ - 1) / each_; }
  // body(task, slot)
  template <class F>
  void run(const F& body) const {
    parallel_ranges(tasks_, each_, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) body(task, begin / each_);
    });
  }

 private:
  int64_t tasks_, each_;
};

LOCUS_HD int64_t cuts(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }
LOCUS_HD int64_t at_least_1(int64_t n) { return n > 0 ? n : 1; }

// Copies channels [begin, end) of image n into planes.
template <class T, class S>
void stage(const Convolution& g, const S* x, int64_t n, int64_t begin, int64_t end, const Planes& p,
           T* to) {
  const int64_t width = p.size[2], step = g.channels_last ? g.groups * g.in : 1;
  const int64_t left = clamp(-p.first[2], 0, width),
                right = clamp(g.data[2] - p.first[2], left, width);
  for (int64_t i = 0; i < p.size[0]; ++i)
    for (int64_t j = 0; j < p.size[1]; ++j) {
      const int64_t y = p.first[0] + i, z = p.first[1] + j;
      const bool inside = y >= 0 && y < g.data[0] && z >= 0 && z < g.data[1] && right > left;
      for (int64_t c = begin; c < end; ++c) {
        T* const row = to + (c - begin) * p.volume() + p.at(i, j, 0);
        for (int64_t k = 0; k < (inside ? left : width); ++k) row[k] = T(0);
        if (!inside) continue;
        const S* const from =
            x + g.data_at(n, c, (y * g.data[1] + z) * g.data[2] + p.first[2] + left);
        if (step == 1)
          convert_run(from, row + left, right - left);
        else
          for (int64_t k = left; k < right; ++k) row[k] = convert<T>(from[(k - left) * step]);
        for (int64_t k = right; k < width; ++k) row[k] = T(0);
      }
    }
}

// Fills the planes of channels [begin, end) with the bias, or 0.
template <class T, class S>
void begin_planes(const S* bias, int64_t begin, int64_t end, const Planes& p, T* to) {
  for (int64_t c = begin; c < end; ++c) {
    const T start = bias != nullptr ? convert<T>(bias[c]) : T(0);
    for (int64_t i = 0; i < p.volume(); ++i) *to++ = start;
  }
}

// Writes planes back to all of the data. Data outside the planes becomes the bias, or 0.
template <class T, class S>
void unstage(const Convolution& g, const T* from, int64_t n, int64_t begin, int64_t end,
             const Planes& p, const S* bias, S* x) {
  const int64_t step = g.channels_last ? g.groups * g.in : 1;
  const int64_t low = clamp(p.first[2], 0, g.data[2]),
                high = clamp(p.first[2] + p.size[2], low, g.data[2]);
  for (int64_t y = 0; y < g.data[0]; ++y)
    for (int64_t z = 0; z < g.data[1]; ++z) {
      const int64_t i = y - p.first[0], j = z - p.first[1];
      const bool inside = i >= 0 && i < p.size[0] && j >= 0 && j < p.size[1];
      const int64_t to = inside ? high : 0, first = inside ? low : 0;
      for (int64_t c = begin; c < end; ++c) {
        S* const row = x + g.data_at(n, c, (y * g.data[1] + z) * g.data[2]);
        const S beyond = bias != nullptr ? bias[c] : convert<S>(T(0));
        for (int64_t k = 0; k < first; ++k) row[k * step] = beyond;
        if (inside) {
          const T* const plane = from + (c - begin) * p.volume() + p.at(i, j, 0) - p.first[2];
          if (step == 1)
            convert_run(plane + low, row + low, high - low);
          else
            for (int64_t k = low; k < high; ++k) row[k * step] = convert<S>(plane[k]);
        }
        for (int64_t k = to; k < g.data[2]; ++k) row[k * step] = beyond;
      }
    }
}

// Channels [begin, end) of image n's results, each contiguous: dy, or 0 if y <= 0.
template <class T, class S>
void stage_result(const Convolution& g, const S* dy, const S* y, int64_t n, int64_t begin,
                  int64_t end, T* to) {
  constexpr int64_t kRun = 16;  // with channels last, one cache line each
  const int64_t size = g.positions(), run = g.channels_last ? kRun : size;
  const int64_t step = g.channels_last ? g.groups * g.out : 1;
  for (int64_t first = 0; first < size; first += run) {
    const int64_t count = size - first < run ? size - first : run;
    for (int64_t o = begin; o < end; ++o) {
      T* const row = to + (o - begin) * size + first;
      const int64_t at = g.result_at(n, o, first);
      if (step == 1)
        convert_run(dy + at, row, count);
      else
        for (int64_t k = 0; k < count; ++k) row[k] = convert<T>(dy[at + k * step]);
      if (y != nullptr)
        for (int64_t k = 0; k < count; ++k)
          row[k] = convert<T>(y[at + k * step]) <= T(0) ? T(0) : row[k];
    }
  }
}

template <class T>
double total(const T* v, int64_t n) {
  constexpr int64_t kLanes = 16, kRun = 4096;
  double sum = 0;
  for (int64_t first = 0; first < n; first += kRun) {
    T lanes[kLanes] = {};
    const int64_t end = n - first < kRun ? n : first + kRun;
    int64_t i = first;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += v[i + j];
    for (; i < end; ++i) lanes[0] += v[i];
    for (int64_t j = 0; j < kLanes; ++j) sum += static_cast<double>(lanes[j]);
  }
  return sum;
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
