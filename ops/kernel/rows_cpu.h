// Functions of rows along an axis, on the host. Included once per instruction set.
//
//   map_rows(call, Along(m, axis), {.work = 4 * n},
//            [&](int64_t, const float* x, float* y) { normalize(x, y, n); },
//            RowIn<Half, float>{x, n}, RowOut<Half, float>{y, n});
//
// The function gets the row's number and one pointer for each operand: to a row of values that are
// contiguous and of the type that the function computes in. Rows with other strides or of another
// type are copied to scratch memory and back. Rows are shared among the threads; a function sees
// one row at a time.
#pragma once

#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/walk.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// Operands are row-major tensors of (outer, n, inner) elements. n may differ between operands.
// T: the stored type. V: the type of the function's values.
template <class T, class V = T>
struct RowIn {
  using Value = V;
  static constexpr bool kDirect = kSame<T, V>, kShared = false;
  const T* data;
  int64_t n;

  V* at(int64_t row) const { return reinterpret_cast<V*>(const_cast<T*>(data + row * n)); }
  // w neighbouring rows, `inner` apart from element to element, to `rows`, and back.
  __attribute__((noinline)) void load(int64_t from, int64_t inner, int64_t w, V* rows) const {
    if (inner == 1) return convert_run(data + from, rows, n);
    for (int64_t c = 0; c < n; ++c)
      for (int64_t j = 0; j < w; ++j) rows[j * n + c] = convert<V>(data[from + c * inner + j]);
  }
  LOCUS_HD void store(const V*, int64_t, int64_t, int64_t) const {}
};
template <class T, class V = T>
struct RowOut {
  using Value = V;
  static constexpr bool kDirect = kSame<T, V>, kShared = false;
  T* data;
  int64_t n;

  V* at(int64_t row) const { return reinterpret_cast<V*>(data + row * n); }
  LOCUS_HD void load(int64_t, int64_t, int64_t, V*) const {}
  __attribute__((noinline)) void store(const V* rows, int64_t to, int64_t inner, int64_t w) const {
    if (inner == 1) return convert_run(rows, data + to, n);
    for (int64_t c = 0; c < n; ++c)
      for (int64_t j = 0; j < w; ++j) data[to + c * inner + j] = convert<T>(rows[j * n + c]);
  }
};
// n values of scratch memory, which the rows of a thread share.
template <class V>
struct RowScratch {
  using Value = V;
  static constexpr bool kDirect = false, kShared = true;
  int64_t n;

  LOCUS_HD void load(int64_t, int64_t, int64_t, V*) const {}
  LOCUS_HD void store(const V*, int64_t, int64_t, int64_t) const {}
};

struct RowOptions {
  int64_t work;             // additions that a row costs, for the number of threads
  bool one_by_one = false;  // the function itself divides its row among the threads
};

constexpr int64_t kRowWork = 1 << 15;  // additions worth a thread
constexpr int64_t kNeighbours = 16;    // strided rows copied at once: a cache line of f32

template <class Operand>
struct Staged {
  Operand operand;
  typename Operand::Value* rows;  // null: the function works on the operand's own memory

  LOCUS_HD typename Operand::Value* at(int64_t row, int64_t j) const {
    if constexpr (Operand::kShared)
      return rows;
    else
      return rows ? rows + j * operand.n : operand.at(row);
  }
};

template <class F, class... Operands>
void map_rows(const Call& call, const Along& along, const RowOptions& o, const F& f,
              const Operands&... operands) {
  const int64_t inner = along.inner, width = inner < kNeighbours ? inner : kNeighbours;
  const int64_t across = width > 0 ? (inner + width - 1) / width : 0, tiles = along.outer * across;
  if (tiles == 0) return;
  const auto bytes = [&](const auto& operand) -> int64_t {
    using Operand = std::remove_cvref_t<decltype(operand)>;
    if (Operand::kDirect && inner == 1) return 0;
    constexpr auto kSize = static_cast<int64_t>(sizeof(typename Operand::Value));
    return (operand.n * (Operand::kShared ? 1 : width) * kSize + 63) / 64 * 64;
  };
  const int64_t all = (bytes(operands) + ... + 0);
  const int64_t work = o.work * width, grain = work < kRowWork ? kRowWork / (work + 1) + 1 : 1;
  int64_t ranges = (tiles + grain - 1) / grain;
  if (ranges > num_threads()) ranges = num_threads();
  if (o.one_by_one) ranges = 1;
  const Scratch scratch(call, static_cast<size_t>(ranges * all));
  parallel_ranges(ranges, 1, [&](int64_t first, int64_t last) {
    for (; first < last; ++first) {
      std::byte* free = scratch.as<std::byte>() + first * all;
      const auto stage = [&](const auto& operand) {
        using Operand = std::remove_cvref_t<decltype(operand)>;
        const int64_t size = bytes(operand);
        auto* const rows = size > 0 ? reinterpret_cast<typename Operand::Value*>(free) : nullptr;
        free += size;
        return Staged<Operand>{operand, rows};
      };
      const auto run = [&](const auto&... staged) {
        for (int64_t t = tiles * first / ranges; t < tiles * (first + 1) / ranges; ++t) {
          const int64_t outer = t / across, j = t % across * width;
          const int64_t w = inner - j < width ? inner - j : width;
          const auto place = [&](const auto& s) { return outer * s.operand.n * inner + j; };
          ((staged.rows ? staged.operand.load(place(staged), inner, w, staged.rows) : void()), ...);
          for (int64_t r = 0; r < w; ++r) f(outer * inner + j + r, staged.at(outer, r)...);
          ((staged.rows ? staged.operand.store(staged.rows, place(staged), inner, w) : void()),
           ...);
        }
      };
      run(stage(operands)...);
    }
  });
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
