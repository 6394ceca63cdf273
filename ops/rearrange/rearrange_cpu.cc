#include <locus/devices/cpu.h>
#include <locus/ops/rearrange/rearrange_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 32768;  // least elements per thread

// n times `inner` adjacent elements, `step` apart in the input.
template <class T>
LOCUS_HD void copy_run(const T* in, int64_t step, T* out, int64_t n, int64_t inner) {
  if (step == inner || n == 1) {
    const int64_t all = n * inner;
    if (all < 16)
      for (int64_t k = 0; k < all; ++k) out[k] = in[k];
    else
      __builtin_memcpy(out, in, static_cast<size_t>(all) * sizeof(T));
  } else if (inner > 1) {
    for (int64_t k = 0; k < n; ++k)
      __builtin_memcpy(out + k * inner, in + k * step, static_cast<size_t>(inner) * sizeof(T));
  } else if (step == 0) {
    const T v = *in;
    for (int64_t k = 0; k < n; ++k) out[k] = v;
  } else if (step == -1) {
    for (int64_t k = 0; k < n; ++k) out[k] = in[-k];
  } else {
    for (int64_t k = 0; k < n; ++k) out[k] = in[k * step];
  }
}

// Positions of the elements of a row, if its runs are short. The rows of a call are alike.
struct RowTable {
  static constexpr int64_t kMost = 1024, kConstant = INT64_MIN, kShort = 8;
  int64_t from[kMost];  // offsets in the input
  bool used = false, has_constants = false;

  template <class R>
  LOCUS_HD RowTable(const R& r, const RearrangeWalk& w, Place<int64_t> p) {
    const int last = w.rank - 1;
    if (!R::kByAxis || w.inner > 1 || w.places < 4 * p.out[last] || p.out[last] > kMost) return;
    int64_t runs = 0;
    for (p.index[last] = 0; p.index[last] < p.out[last]; ++runs) {
      const Source<int64_t> s = r.source(last, p);
      const int64_t first = p.index[last], left = p.out[last] - first;
      const int64_t n = s.n < left ? s.n : left;
      for (int64_t k = 0; k < n; ++k)
        from[first + k] = s.at < 0 ? kConstant : (s.at + k * s.step) * w.stride[last];
      has_constants |= s.at < 0;
      p.index[last] += n;
    }
    used = runs * kShort > p.out[last];
  }
  template <class T>
  LOCUS_HD void copy(const T* in, int64_t first, T* out, int64_t n, T constant) const {
    const int64_t* const at = from + first;
    if (has_constants)
      for (int64_t k = 0; k < n; ++k) out[k] = at[k] == kConstant ? constant : in[at[k]];
    else
      for (int64_t k = 0; k < n; ++k) out[k] = in[at[k]];
  }
};

// Copies runs along the last moved axis. Ranges may split rows.
template <class T, class R>
void run(const R& r, const RearrangeWalk& w, const T* in, T* out, T constant) {
  const int last = w.rank - 1;
  parallel_ranges(w.places, kGrain / (w.inner + 1) + 1, [&](int64_t begin, int64_t end) {
    Place<int64_t> p = w.first<int64_t>();
    for (int64_t a = last, rest = begin; a >= 0; --a) {
      p.index[a] = a > 0 ? rest % p.out[a] : rest;
      if (a > 0) rest /= p.out[a];
    }
    const RowTable table(r, w, p);
    T* to = out + begin * w.inner;
    for (int64_t left = end - begin; left > 0;) {
      const int64_t in_row = p.out[last] - p.index[last];
      int64_t n = left < in_row ? left : in_row;
      left -= n;
      if (table.used) {
        int64_t at = 0;
        bool is_constant = false;
        for (int a = 0; a < last; ++a) {
          const int64_t from = r.source(a, p).at;
          is_constant |= from < 0;
          at += from * w.stride[a];
        }
        if (is_constant)
          for (int64_t k = 0; k < n; ++k) to[k] = constant;
        else
          table.copy(in + at, p.index[last], to, n, constant);
        to += n;
        n = 0;
      }
      while (n > 0) {
        int64_t at = 0, step = 0, length = n;
        bool is_constant = false;
        for (int a = 0; a < w.in_rank && !is_constant; ++a) {
          const Source<int64_t> s = r.source(a, p);
          const bool moves = !R::kByAxis || a == last;
          if (moves && s.n < length) length = s.n;
          is_constant = s.at < 0;
          if (is_constant) length = moves && s.n < n ? s.n : n;
          at += s.at * w.stride[a];
          step += moves ? s.step * w.stride[a] : 0;
        }
        if (is_constant)
          for (int64_t k = 0; k < length * w.inner; ++k) to[k] = constant;
        else
          copy_run(in + at, step, to, length, w.inner);
        to += length * w.inner;
        p.index[last] += length;
        n -= length;
      }
      p.index[last] = 0;
      for (int a = last - 1; a >= 0; --a) {
        if (++p.index[a] < p.out[a]) break;
        p.index[a] = 0;
      }
    }
  });
}

struct Backend {
  template <class R>
  static void rearrange(const Call& call) {
    const R& r = call.attributes<R>();
    const View &in = call.in[0], &out = call.out[0];
    const RearrangeWalk w = walk_of(r, in, out);
    const uint64_t bits = element_bits(out.meta.dtype, r.constant());
    by_size(size_of(out.meta.dtype), [&](auto word) {
      using T = decltype(word);
      run(r, w, in.as<T>(), out.as<T>(), static_cast<T>(bits));
    });
  }
};

}  // namespace

extern constinit const KernelList rearrange = rearrange_kernels<Backend, Views>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
