// Kernels of the random family: the list, and what both kinds of kernels share.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/random/counts.h>
#include <locus/ops/random/gamma.h>

namespace locus {

// The parameters of element i: numbers, or the first inputs, which hold one number an element.
struct Parameters {
  double a = 0, b = 1;
  const double* in[2] = {};

  static Parameters of(const Call& call, double a, double b) {
    Parameters p{a, b, {}};
    for (int k = 0; k < call.n_in && k < 2; ++k) p.in[k] = call.in[k].as<double>();
    return p;
  }
  LOCUS_HD bool each() const { return in[0] != nullptr; }
  template <class D>
  LOCUS_HD D at(int64_t i) const {
    return D(in[0] ? in[0][i] : a, in[1] ? in[1][i] : b);
  }
};

// Element i of `out`, of dtype d. Few kernels: each serves all dtypes.
LOCUS_HD void store(DType d, void* out, int64_t i, double v) {
  switch (d) {
    case f32:
      static_cast<float*>(out)[i] = convert<float>(v);
      return;
    case f64:
      static_cast<double*>(out)[i] = v;
      return;
    case f16:
      static_cast<Half*>(out)[i] = convert<Half>(v);
      return;
    case bf16:
      static_cast<BFloat16*>(out)[i] = convert<BFloat16>(v);
      return;
    case i32:
      static_cast<int32_t*>(out)[i] = convert<int32_t>(v);
      return;
    case i64:
      static_cast<int64_t*>(out)[i] = convert<int64_t>(v);
      return;
    case u8:
      static_cast<uint8_t*>(out)[i] = convert<uint8_t>(v);
      return;
    default:
      static_cast<int8_t*>(out)[i] = convert<int8_t>(v);
  }
}

// Draws of elements: a Backend calls build(i) once for all, or for each i if the parameters differ.
template <class Distribution>
struct FromParameters {
  using D = Distribution;
  Parameters parameters;

  LOCUS_HD bool each() const { return parameters.each(); }
  LOCUS_HD D build(int64_t i) const { return parameters.at<D>(i); }
};
template <class T>
struct FromTruncated {
  using D = TruncatedNormal<T>;
  TruncatedAttrs attributes;

  LOCUS_HD bool each() const { return false; }
  LOCUS_HD D build(int64_t) const { return D(attributes); }
};

template <class Backend, class D>
void draw_elements(const Call& call) {
  const RandomAttrs& a = call.attributes<RandomAttrs>();
  for (int k = 0; k < call.n_in; ++k) Backend::template check<D>(call, k);
  Backend::draw_each(call, a.key, FromParameters<D>{Parameters::of(call, a.a, a.b)});
}
template <class Backend>
void draw_binomial(const Call& call) {
  const RandomAttrs& a = call.attributes<RandomAttrs>();
  const Parameters p{static_cast<double>(a.low), a.a, {}};
  Backend::draw_each(call, a.key, FromParameters<Binomial>{p});
}
template <class Backend, class T>
void draw_exponential(const Call& call) {
  if (call.n_in > 0) return draw_elements<Backend, EachExponential>(call);
  Backend::template draw<T, Exponential>(call);
}
template <class Backend, class T>
void draw_truncated(const Call& call) {
  const TruncatedAttrs& a = call.attributes<TruncatedAttrs>();
  Backend::draw_each(call, a.key, FromTruncated<T>{a});
}

template <class Backend>
constexpr KernelList random_kernels() {
  KernelList list;
  list.add_each("uniform", kFloatDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Uniform>; });
  list.add_each("normal", kFloatDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Normal>; });
  list.add_each("laplace", kFloatDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Laplace>; });
  list.add_each("exponential", kFloatDTypes,
                [](auto d) { return draw_exponential<Backend, CppTypeOf<d>>; });
  list.add_each("randint", DTypes<i32, i64, u8, i8>{},
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Randint>; });
  list.add_each("bernoulli", kAllDTypes,
                [](auto d) { return Backend::template draw<CppTypeOf<d>, Bernoulli>; });
  list.add("random_gamma", kFloatDTypes, draw_elements<Backend, Gamma>);
  list.add("beta", kFloatDTypes, draw_elements<Backend, Beta>);
  list.add_each("truncated_normal", kFloatDTypes,
                [](auto d) { return draw_truncated<Backend, CppTypeOf<d>>; });
  list.add("poisson", kNumberDTypes, draw_elements<Backend, Poisson>);
  list.add("binomial", kNumberDTypes, draw_binomial<Backend>);
  list.add("multinomial", kNumberDTypes, Backend::multinomial);
  list.add_each("choice", DTypes<i32, i64>{},
                [](auto d) { return Backend::template choice<CppTypeOf<d>>; });
  return list;
}

namespace detail {
// Throws ValueError "gamma: shape -1 at element 3; expected numbers from 0 to 1e300".
[[noreturn]] void throw_bad_parameter(const ParameterText& text, int input, int64_t element,
                                      double value);
}  // namespace detail

}  // namespace locus
