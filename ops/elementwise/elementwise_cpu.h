// The CPU engine of the elementwise families: one loop per formula and type, which the compiler
// vectorizes.
//
// Operands that lie in the output's order without gaps are read and written in place. Others
// (strided, broadcast, numbers, 16-bit floats) are staged in blocks that fit the L1 cache. Included
// by *_cpu.cc only: everything is in the namespace of one instruction set.
#pragma once

#include <utility>

#include <locus/core/dtype.h>
#include <locus/devices/cpu.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/kernel/walk.h>

// [[gnu::noinline]]: one copy for all formulas, instead of one inlined into each.
namespace locus::LOCUS_ISA_NAMESPACE {
namespace elementwise_engine {

inline constexpr int64_t kBlock = 512, kGrain = 32768;

// One operand of a call.
template <class T>
struct Source {
  using C = Compute<T>;
  const T* data = nullptr;
  bool in_order = false;  // element i at data + i
  bool number = false;
  C value{};

  // Elements [begin, begin + n) in the compute type: in place, or in `block`.
  [[gnu::noinline]] const C* fetch(const Path& path, int64_t begin, int64_t n, C* block) const {
    if (number) {
      for (int64_t i = 0; i < n; ++i) block[i] = value;
      return block;
    }
    if (in_order) {
      if constexpr (std::is_same_v<T, C>) {
        return data + begin;
      } else {
        convert_run(data + begin, block, n);
        return block;
      }
    }
    for_rows(path, begin, n, [&](int64_t offset, int64_t at, int64_t length, int64_t stride) {
      const T* from = data + offset;
      C* to = block + at;
      if (stride == 1) {
        convert_run(from, to, length);
      } else if (stride == 0) {
        const C v = convert<C>(*from);
        for (int64_t i = 0; i < length; ++i) to[i] = v;
      } else {
        for (int64_t i = 0; i < length; ++i) to[i] = convert<C>(from[i * stride]);
      }
    });
    return block;
  }
};

// Stores `values` to elements [begin, begin + n) of the output.
template <class T>
[[gnu::noinline]] void store(T* out, bool in_order, const Path& path, int64_t begin, int64_t n,
                             const Compute<T>* values) {
  if (in_order) {
    convert_run(values, out + begin, n);
    return;
  }
  for_rows(path, begin, n, [&](int64_t offset, int64_t at, int64_t length, int64_t stride) {
    for (int64_t i = 0; i < length; ++i) out[offset + i * stride] = convert<T>(values[at + i]);
  });
}

template <int N>
[[gnu::noinline]] Walk<N> make_walk(const View* const (&views)[N]) {
  return walk_of<N>(views);
}

template <class F, class... C>
concept HasQuick = requires(const F& f, C... x) {
  f.fits(x...);
};

#ifdef __clang__
#define LOCUS_EACH _Pragma("clang loop vectorize(assume_safety)") for
#else
#define LOCUS_EACH _Pragma("GCC ivdep") for
#endif

// Computes a block by f.by(y), if the formula has it and the block has one y.
template <class F, class R, class... C>
bool loop_by(const F&, R*, int64_t, const C*...) {
  return false;
}
template <class F, class R, class C>
requires requires(const F& f, C y) { f.by(y); }
bool loop_by(const F& f, R* out, int64_t n, const C* x, const C* y) {
  const C first = y[0];
  if (!(first > 0) || y[n - 1] != first) return false;
  Wrap<C> other = 0;
  LOCUS_EACH(int64_t i = 0; i < n; ++i) other |= static_cast<Wrap<C>>(y[i] ^ first);
  if (other != 0) return false;
  const auto of = f.by(first);
  LOCUS_EACH(int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(of(x[i]));
  return true;
}

// The function that a formula is compiled into. f16 and bf16 share f32's.
template <class F, class R, class... C>
[[gnu::noinline]] void loop(const void* attrs, R* out, int64_t n, const C*... in) {
  const F f = formula::formula_of<F>(*static_cast<const formula::AttrsOf<F>*>(attrs));
  // An iteration reads and writes only index i, so an output may be an input.
  if constexpr (HasQuick<F, C...>) {
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t end = n - at < kBlock ? n : at + kBlock;
      Wrap<R> rest = 0;  // in vector code, as wide as the elements
      LOCUS_EACH(int64_t i = at; i < end; ++i) rest |= f.fits(in[i]...) ? 0u : 1u;
      if (rest == 0 && loop_by(f, out + at, end - at, in + at...)) continue;
      if (rest == 0) {
        LOCUS_EACH(int64_t i = at; i < end; ++i) out[i] = static_cast<R>(f.quick(in[i]...));
      } else {
        for (int64_t i = at; i < end; ++i) out[i] = static_cast<R>(f.apply(in[i]...));
      }
    }
  } else {
    LOCUS_EACH(int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(f.apply(in[i]...));
  }
#undef LOCUS_EACH
}

// Everything around the loop: one copy for all formulas of these storage types.
template <class Out, class... In>
struct Run {
  static constexpr int kIn = sizeof...(In);
  static constexpr bool kDirect =
      (std::is_same_v<Out, Compute<Out>> && ... && std::is_same_v<In, Compute<In>>);
  using R = Compute<Out>;
  using Loop = void (*)(const void* attrs, R* out, int64_t n, const Compute<In>*... in);

  [[gnu::noinline]] static void start(const Call& call, Loop loop, int64_t grain) {
    go(call, loop, grain, std::make_integer_sequence<int, kIn>());
  }

 private:
  template <int... I>
  LOCUS_HD static void go(const Call& call, Loop loop, int64_t grain,
                          std::integer_sequence<int, I...>) {
    const View* views[kIn + 1];
    const formula::Scalars numbers = formula::scalars<kIn>(call);
    bool flat = call.out[0].contiguous();
    for (int i = 0, next = 0; i < kIn; ++i) {
      views[i] = numbers.scalar[i] ? nullptr : &call.in[next++];
      flat = flat && (views[i] == nullptr || views[i]->contiguous());
    }
    views[kIn] = &call.out[0];
    Walk<kIn + 1> walk;
    if (!flat) walk = make_walk<kIn + 1>(views);
    const bool out_in_order = flat || walk.dense(kIn);

    struct Sources : Operand<I, In>... {};
    Sources sources;
    (set<In>(static_cast<Operand<I, In>&>(sources).source, views[I], numbers.scalar[I],
             flat || (views[I] && walk.dense(I))),
     ...);
    const bool direct =
        kDirect && (out_in_order && ... && static_cast<Operand<I, In>&>(sources).source.in_order);

    Out* const out = call.out[0].as<Out>();
    parallel_ranges(call.out[0].meta.size(), grain, [&](int64_t begin, int64_t end) {
      if constexpr (kDirect) {
        if (direct) {
          loop(call.attrs, out + begin, end - begin,
               static_cast<Operand<I, In>&>(sources).source.data + begin...);
          return;
        }
      }
      struct Blocks : Block<I, Compute<In>>... {};
      Blocks blocks;
      alignas(64) R results[kBlock];
      const bool in_place = std::is_same_v<Out, R> && out_in_order;
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t length = end - at < kBlock ? end - at : kBlock;
        R* const result = in_place ? reinterpret_cast<R*>(out + at) : results;
        loop(call.attrs, result, length,
             static_cast<Operand<I, In>&>(sources).source.fetch(
                 walk.path(I), at, length, static_cast<Block<I, Compute<In>>&>(blocks).values)...);
        if (!in_place) store(out, out_in_order, walk.path(kIn), at, length, results);
      }
    });
  }

  // Numbered bases: two operands of one type are two members.
  template <int I, class T>
  struct Operand {
    Source<T> source;
  };
  template <int I, class C>
  struct Block {
    alignas(64) C values[kBlock];
  };

  template <class T>
  LOCUS_HD static void set(Source<T>& s, const View* view, const Scalar* scalar, bool in_order) {
    if (view) {
      s.data = view->as<T>();
      s.in_order = in_order;
    } else {
      s.number = true;
      s.value = convert<Compute<T>>(formula::number<T>(*scalar));
    }
  }
};

template <class F, class Out, class... In>
void kernel_of(const Call& call) {
  Run<Out, In...>::start(call, &loop<F, Compute<Out>, Compute<In>...>, kGrain / F::kCost);
}

struct Engine {
  template <class F, DType D>
  static constexpr Kernel kernel() {
    // Compilers vectorize comparisons of bytes, not of bool.
    using T = std::conditional_t<F::kPredicate && D == bool_, uint8_t, CppTypeOf<D>>;
    using Out = std::conditional_t<F::kPredicate, bool, T>;
    if constexpr (F::kArity == 1)
      return &kernel_of<F, Out, T>;
    else if constexpr (F::kArity == 2)
      return &kernel_of<F, Out, T, T>;
    else
      return &kernel_of<F, Out, std::conditional_t<F::kMasked, bool, T>, T, T>;
  }
};

}  // namespace elementwise_engine

template <class L>
constexpr KernelList elementwise_kernels(L list) {
  return formula::kernels_of<elementwise_engine::Engine>(list);
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
