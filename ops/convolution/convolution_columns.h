// Columns of a convolution's panels on the host. Compiled once per instruction set; included by
// *_cpu.cc only.
#pragma once

#include <locus/ops/matmul/matmul_tile_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

// Offsets of a panel's columns, relative to a step's. Adjacent columns are moved together.
template <class T>
class Columns {
 public:
  static constexpr int64_t kN = kColumns<T>;
  // Elements that reads and writes may go past the last one.
  static constexpr int64_t kSlack = kN + 8;

  // n <= kN columns. The rest of the panel repeats the last one.
  Columns(int64_t n, const int64_t* at) : n_(n) {
    for (int64_t j = 0; j < kN; ++j) at_[j] = at[j < n ? j : n - 1];
    for (int64_t j = 0; j < n; ++j)
      if (j == 0 || at_[j] != at_[j - 1] + 1) first_[runs_++] = static_cast<int>(j);
    first_[runs_] = static_cast<int>(n);
  }
  int64_t size() const { return n_; }

  // to[k][j] = from[step[k] + at(j)] for k < depth. `to` and `from` have kSlack extra elements.
  void pack(const T* from, const int64_t* step, int64_t depth, T* to) const {
    if (runs_ == 1 && n_ == kN) {
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(to + k * kN, from + step[k] + at_[0], kN * sizeof(T));
    } else if (runs_ * 3 <= n_) {
      for (int64_t k = 0; k < depth; ++k)
        for (int r = 0; r < runs_; ++r) {  // the next run overwrites the excess
          const T* const source = from + step[k] + at_[first_[r]];
          T* const target = to + k * kN + first_[r];
          for (int64_t i = 0; i < first_[r + 1] - first_[r]; i += 8)
            std::memcpy(target + i, source + i, 8 * sizeof(T));
        }
    } else {
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < kN; ++j) to[k * kN + j] = from[step[k] + at_[j]];
    }
  }

  // to[at(j)] += from[j].
  void scatter(const T* from, T* to) const {
    if (runs_ * 3 > n_) {
      for (int64_t j = 0; j < n_; ++j) to[at_[j]] += from[j];
      return;
    }
    for (int r = 0; r < runs_; ++r) {
      const T* const source = from + first_[r];
      T* const target = to + at_[first_[r]];
      const int64_t n = first_[r + 1] - first_[r];
      int64_t i = 0;
      for (; i + 8 <= n; i += 8) {
        T sum[8];
        for (int64_t j = 0; j < 8; ++j) sum[j] = target[i + j] + source[i + j];
        std::memcpy(target + i, sum, sizeof sum);
      }
      for (; i < n; ++i) target[i] += source[i];
    }
  }

 private:
  int64_t n_;
  int64_t at_[kN];
  int first_[kN + 1];  // first column of each run
  int runs_ = 0;
};

}  // namespace locus::LOCUS_ISA_NAMESPACE
