// Loops over elements, for kernels that are compiled at run time: by NVRTC, and by the machine's
// C++ compiler. The host fills the same structs. Free of the standard library.
#pragma once

#include <locus/ops/kernel/divisor.h>
#include <locus/ops/kernel/math.h>

namespace locus::jit {

enum { kAxes = 8, kStaged = 512 };

// The loop, with as few axes as possible. The first axis is the slowest.
struct Loop {
  int64_t n = 1;
  int32_t rank = 1, wide = 0;  // wide: n >= 2^31, 64-bit divisions
  int64_t shape[kAxes] = {};
  Divisor length[kAxes];  // of shape, unless wide
};
// An operand of the loop. Strides count elements; 0: broadcast. dense: element i is at data + i.
struct Array {
  void* data = nullptr;
  int64_t dense = 0;
  int64_t stride[kAxes] = {};
};

// An operand of a loop over one axis.
struct Line {
  void* data = nullptr;
  int64_t stride = 1;
};

// Out of line on a GPU: inlined, 64-bit divisions and loops over axes are most of a kernel.
#ifdef __CUDACC__
#define LOCUS_JIT_CALL __device__ __noinline__
#define LOCUS_JIT_LOOP _Pragma("unroll 1")
#else
#define LOCUS_JIT_CALL inline
#define LOCUS_JIT_LOOP
#endif
LOCUS_JIT_CALL int64_t divided(int64_t a, int64_t b) { return a / b; }

// A number of the call, in the type that the body computes in. bits_of() is its inverse.
template <class C>
LOCUS_HD C number(uint64_t bits) {
  if constexpr (kSame<C, float>)
    return bits_float(static_cast<uint32_t>(bits));
  else if constexpr (kSame<C, double>)
    return bits_double(bits);
  else
    return static_cast<C>(bits);
}
template <class C>
LOCUS_HD uint64_t bits_of(C v) {
  if constexpr (kSame<C, float>)
    return float_bits(v);
  else if constexpr (kSame<C, double>)
    return double_bits(v);
  else
    return static_cast<uint64_t>(v);
}

// An f16 or bf16 element of a raw argument. Reads and writes as a float.
template <class T>
struct Element16 {
  T* at;
  LOCUS_HD operator float() const { return static_cast<float>(*at); }
  LOCUS_HD const Element16& operator=(float v) const {
    *at = T(v);
    return *this;
  }
  LOCUS_HD const Element16& operator=(const Element16& v) const {
    return *this = static_cast<float>(v);
  }
  LOCUS_HD const Element16& operator+=(float v) const { return *this = *this + v; }
  LOCUS_HD const Element16& operator-=(float v) const { return *this = *this - v; }
  LOCUS_HD const Element16& operator*=(float v) const { return *this = *this * v; }
  LOCUS_HD const Element16& operator/=(float v) const { return *this = *this / v; }
};
template <class T>
struct ElementOf {
  using type = T&;
};
template <class T>
requires(k16Bit<T>) struct ElementOf<T> {
  using type = Element16<T>;
};
template <class T>
requires(k16Bit<T>) struct ElementOf<const T> {
  using type = float;
};

// A raw argument: the whole tensor. x[i] is element i in row-major order.
template <class T>
struct Raw {
  T* data;
  int64_t length;
  int32_t rank, dense;
  int64_t lengths[kAxes], stride[kAxes];

  LOCUS_HD int64_t size() const { return length; }
  LOCUS_HD const int64_t* shape() const { return lengths; }
  LOCUS_HD const int64_t* strides() const { return stride; }
  LOCUS_HD int64_t offset(int64_t i) const {
    int64_t at = 0;
    LOCUS_JIT_LOOP
    for (int a = rank - 1; a >= 0; --a) {
      const int64_t rest = divided(i, lengths[a]);
      at += (i - rest * lengths[a]) * stride[a];
      i = rest;
    }
    return at;
  }
  LOCUS_HD auto operator[](int64_t i) const -> typename ElementOf<T>::type {
    T* const p = data + (dense ? i : offset(i));
    if constexpr (kSame<typename ElementOf<T>::type, float>)
      return static_cast<float>(*p);
    else if constexpr (kSame<typename ElementOf<T>::type, Element16<T>>)
      return {p};
    else
      return *p;
  }
};

// The body's _ind.
class Index {
 public:
  LOCUS_HD Index(const Loop& l, int64_t at) : size_(l.n) {
    LOCUS_JIT_LOOP
    for (int a = l.rank - 1; a > 0; --a) {
      const int64_t rest = divided(at, l.shape[a]);
      index_[a] = at - rest * l.shape[a];
      at = rest;
    }
    index_[0] = at;
  }
  LOCUS_HD int64_t size() const { return size_; }
  LOCUS_HD const int64_t* get() const { return index_; }

 private:
  int64_t size_, index_[kAxes];
};

// Adds the offsets of element `at` of the loop, in the first arrays. S has strides, as Array does.
template <class S, int M, int N>
LOCUS_JIT_CALL void locate(const Loop& l, const S (&array)[M], int64_t at, int64_t (&offset)[N]) {
  static_assert(N <= M);
  int64_t rest = at;
  LOCUS_JIT_LOOP
  for (int a = l.rank - 1; a > 0; --a) {
    const int64_t quotient =
        l.wide ? divided(rest, l.shape[a])
               : static_cast<int64_t>(l.length[a].divide(static_cast<uint32_t>(rest)));
    const int64_t index = rest - quotient * l.shape[a];
    rest = quotient;
    for (int k = 0; k < N; ++k) offset[k] += index * array[k].stride[a];
  }
  for (int k = 0; k < N; ++k) offset[k] += rest * array[k].stride[0];
}
#undef LOCUS_JIT_CALL
#undef LOCUS_JIT_LOOP

// *p. A bool may be any byte, because new outputs are not set.
template <class T>
LOCUS_HD T read(const T* p) {
  if constexpr (kSame<T, bool>)
    return *reinterpret_cast<const uint8_t*>(p) != 0;
  else
    return *p;
}
// Element i of memory that holds T, in the type that the body computes in.
template <class T>
LOCUS_HD Compute<T> get(const void* data, int64_t i) {
  return convert<Compute<T>>(read(static_cast<const T*>(data) + i));
}
template <class T>
LOCUS_HD void set(void* data, int64_t i, Compute<T> v) {
  static_cast<T*>(data)[i] = convert<T>(v);
}

#ifdef __CUDACC__
// E elements of T of a thread.
template <class T, int E>
struct alignas(sizeof(T) * E) Pack {
  T v[E];
};
template <class T, int E>
LOCUS_HD Pack<T, E> load(const Line& a, int64_t pack) {
  return static_cast<const Pack<T, E>*>(a.data)[pack];
}
template <class T, int E>
LOCUS_HD void store(const Line& a, int64_t pack, const Pack<T, E>& p) {
  static_cast<Pack<T, E>*>(a.data)[pack] = p;
}
// The same by elements, at any alignment and stride.
template <class T, int E>
LOCUS_HD Pack<T, E> gather(const Line& a, int64_t pack) {
  const T* const from = static_cast<const T*>(a.data) + pack * E * a.stride;
  Pack<T, E> p;
#pragma unroll
  for (int e = 0; e < E; ++e) p.v[e] = read(from + e * a.stride);
  return p;
}
template <class T, int E>
LOCUS_HD void scatter(const Line& a, int64_t pack, const Pack<T, E>& p) {
  T* const to = static_cast<T*>(a.data) + pack * E * a.stride;
#pragma unroll
  for (int e = 0; e < E; ++e) to[e * a.stride] = p.v[e];
}
#else
// row(offset, from, length, stride) for the pieces of rows of elements [begin, begin + n).
template <class F>
LOCUS_HD void rows(const Loop& l, const Array& a, int64_t begin, int64_t n, const F& row) {
  int64_t index[kAxes], rest = begin;
  for (int k = l.rank - 1; k >= 0; --k) {
    index[k] = k > 0 ? rest % l.shape[k] : rest;
    if (k > 0) rest /= l.shape[k];
  }
  const int last = l.rank - 1;
  for (int64_t done = 0; done < n;) {
    int64_t offset = 0;
    for (int k = 0; k < l.rank; ++k) offset += index[k] * a.stride[k];
    const int64_t left = l.shape[last] - index[last], m = left < n - done ? left : n - done;
    row(offset, done, m, a.stride[last]);
    done += m;
    index[last] = 0;
    for (int k = last - 1; k >= 0; --k) {
      if (++index[k] < l.shape[k]) break;
      index[k] = 0;
    }
  }
}
// Where the loop puts elements [begin, begin + n): in place, or in `block`.
template <class T>
Compute<T>* place(const Array& a, int64_t begin, Compute<T>* block) {
  if constexpr (kSame<T, Compute<T>>) {
    if (a.dense) return static_cast<T*>(a.data) + begin;
  }
  return block;
}
// The same, with the elements' values there.
template <class T>
Compute<T>* fetch(const Loop& l, const Array& a, int64_t begin, int64_t n, Compute<T>* block) {
  using C = Compute<T>;
  T* const data = static_cast<T*>(a.data);
  C* const values = place<T>(a, begin, block);
  if (values != block) return values;
  if (a.dense) {
    convert_run(data + begin, block, n);
    return block;
  }
  rows(l, a, begin, n, [&](int64_t offset, int64_t at, int64_t m, int64_t stride) {
    const T* const from = data + offset;
    C* const to = block + at;
    if (stride == 1) {
      convert_run(from, to, m);
    } else if (stride == 0) {
      const C v = convert<C>(*from);
      for (int64_t i = 0; i < m; ++i) to[i] = v;
    } else {
      for (int64_t i = 0; i < m; ++i) to[i] = convert<C>(from[i * stride]);
    }
  });
  return block;
}
// Stores what is at fetch()'s or place()'s result, unless that is in place.
template <class T>
void put(const Loop& l, const Array& a, int64_t begin, int64_t n, const Compute<T>* from) {
  T* const data = static_cast<T*>(a.data);
  if (a.dense) {
    if (static_cast<const void*>(from) != data + begin) convert_run(from, data + begin, n);
    return;
  }
  rows(l, a, begin, n, [&](int64_t offset, int64_t at, int64_t m, int64_t stride) {
    for (int64_t i = 0; i < m; ++i) data[offset + i * stride] = convert<T>(from[at + i]);
  });
}
#endif

}  // namespace locus::jit
