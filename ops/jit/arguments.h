// What launches of kernels from source text share: operands by parameter, the bytes of arguments.
// Internal to ops.
#pragma once

#include <algorithm>
#include <cstring>

#include <locus/core/kernel.h>
#include <locus/core/shape.h>
#include <locus/ops/jit/definition.h>
#include <locus/ops/jit/element.h>

namespace locus::jit {

inline constexpr int kMost = static_cast<int>(kMostOperands);

inline bool same_shape(const Meta& a, const Meta& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Calls f(k, parameter, j) for the parameters that are tensors, where j counts them.
inline void for_tensors(const Specialization& s, size_t end, const auto& f) {
  const Parameters& all = s.definition.parameters;
  for (size_t k = 0, j = 0; k < end; ++k)
    if (!s.types[k].number) f(k, all[k], j++);
}

// The shape of all tensors that are not raw, broadcast. in(j) is tensor j of the parameters up to
// `end`. Returns the first such parameter, or null.
inline const Parameter* broadcast(const Specialization& s, const auto& in, size_t end,
                                  Meta& shape) {
  const Parameter* decides = nullptr;
  for_tensors(s, end, [&](size_t, const Parameter& p, size_t j) {
    if (p.raw) return;
    if (!decides) {
      shape = in(j);
      decides = &p;
    } else if (!same_shape(shape, in(j))) {
      shape = make_meta(f32, broadcast_shapes(Shape(shape), Shape(in(j))));
    }
  });
  return decides;
}

// The views of a call by parameter.
struct CallViews {
  const Specialization& s;
  const Attrs& attrs;
  const View* view[kMost] = {};

  explicit CallViews(const Call& call)
      : s(*call.attributes<Attrs>().of), attrs(call.attributes<Attrs>()) {
    const size_t inputs = in_place() ? s.types.size() : s.definition.inputs;
    for_tensors(s, inputs, [&](size_t k, const Parameter&, size_t j) { view[k] = &call.in[j]; });
    for (size_t k = inputs; k < s.types.size(); ++k) view[k] = &call.out[k - inputs];
  }
  bool in_place() const { return attrs.targets != 0; }
};

// The bytes of a generated struct.
class ArgumentBytes {
 public:
  template <class T>
  void add(const T& v) {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) <= 8);
    add(&v, sizeof(T));
  }
  void add(const void* bytes, size_t size) {
    if (size > 0) std::memcpy(bytes_ + size_, bytes, size);  // `bytes` may be null
    size_ += size;
  }
  // TextWriter::rest_of_args().
  void add_rest(const CallViews& c) {
    size_t numbers = 0;
    for (const Specialization::Type& t : c.s.types)
      if (t.number) add(c.attrs.number[numbers++]);
    for (size_t k = 0; k < c.s.types.size(); ++k) {
      if (!c.s.definition.parameters[k].raw) continue;
      const View& v = *c.view[k];
      Raw<char> raw{v.as<char>(), v.meta.size(), v.meta.rank, v.contiguous(), {}, {}};
      std::copy(v.meta.shape, v.meta.shape + v.meta.rank, raw.lengths);
      std::copy(v.stride, v.stride + v.meta.rank, raw.stride);
      add(raw);
    }
  }
  const void* data() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  alignas(16) unsigned char bytes_[4096];
  size_t size_ = 0;
};

// Axes that are walked, as a generated struct has them.
inline void set_axes(Loop& loop, int64_t n, int rank, const int64_t* shape) {
  loop.n = n;
  loop.rank = rank;
  loop.wide = n >= (int64_t{1} << 31);
  for (int a = 0; a < rank; ++a) {
    loop.shape[a] = shape[a];
    if (!loop.wide && n > 0) loop.length[a] = Divisor(shape[a]);
  }
}

// The stride of a view along axis a of the shape that it is broadcast to; 0 if it is repeated.
inline int64_t stride_along(const View& v, const Meta& shape, int a) {
  const int own = a - (shape.rank - v.meta.rank);
  return own < 0 || (v.meta.shape[own] == 1 && shape.shape[a] != 1) ? 0 : v.stride[own];
}

}  // namespace locus::jit
