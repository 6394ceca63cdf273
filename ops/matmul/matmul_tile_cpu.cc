#include <locus/ops/matmul/matmul_tile_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

template <class T, int64_t R>
void tile(int64_t depth, const T* a, const T* b, int64_t b_step, T* c, int64_t ldc, bool add) {
  using V = typename VectorOf<T>::type;
  V sum[R][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V x0, x1;
    std::memcpy(&x0, b + k * b_step, sizeof x0);
    std::memcpy(&x1, b + k * b_step + kVectorLanes<T>, sizeof x1);
#pragma GCC unroll 12
    for (int64_t i = 0; i < R; ++i) {
      sum[i][0] += a[k * R + i] * x0;
      sum[i][1] += a[k * R + i] * x1;
    }
  }
#pragma GCC unroll 12
  for (int64_t i = 0; i < R; ++i) {
    T* const to = c + i * ldc;
    if (add) {
      V old0, old1;
      std::memcpy(&old0, to, sizeof old0);
      std::memcpy(&old1, to + kVectorLanes<T>, sizeof old1);
      sum[i][0] += old0;
      sum[i][1] += old1;
    }
    std::memcpy(to, &sum[i][0], sizeof(V));
    std::memcpy(to + kVectorLanes<T>, &sum[i][1], sizeof(V));
  }
}

template <class T>
using Tile = void (*)(int64_t, const T*, const T*, int64_t, T*, int64_t, bool);
template <class T>
constexpr Tile<T> kTiles[] = {
    tile<T, 1>, tile<T, 2>, tile<T, 3>, tile<T, 4>,  tile<T, 5>,  tile<T, 6>,
#if defined(__AVX512F__)
    tile<T, 7>, tile<T, 8>, tile<T, 9>, tile<T, 10>, tile<T, 11>, tile<T, 12>,
#endif
};

}  // namespace

template <class T>
void multiply_panel(int64_t rows, int64_t depth, const T* a, const T* b, int64_t b_step, T* c,
                    int64_t ldc, bool add) {
  kTiles<T>[rows - 1](depth, a, b, b_step, c, ldc, add);
}

template void multiply_panel(int64_t, int64_t, const float*, const float*, int64_t, float*, int64_t,
                             bool);
template void multiply_panel(int64_t, int64_t, const double*, const double*, int64_t, double*,
                             int64_t, bool);

}  // namespace locus::LOCUS_ISA_NAMESPACE
