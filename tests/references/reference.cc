#include "tests/references/reference.h"

#include <algorithm>
#include <map>

#include <locus/core/error.h>
#include <locus/core/memory/storage.h>

namespace locus::test {
namespace {

std::map<std::string, Reference, std::less<>>& all() {
  static std::map<std::string, Reference, std::less<>> references;
  return references;
}

size_t offset(const std::vector<int64_t>& shape, const Place& p) {
  int64_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (p.at(i) < 0 || p[i] >= shape[i]) throw Error("reference: a place outside of its array");
    at = at * shape[i] + p[i];
  }
  return static_cast<size_t>(at);
}

}  // namespace

Array::Array(std::vector<int64_t> lengths, DType d, Real fill)
    : shape(std::move(lengths)), dtype(d) {
  int64_t n = 1;
  for (int64_t length : shape) n *= length;
  values.assign(static_cast<size_t>(n), fill);
}

Real& Array::at(const Place& p) { return values.at(offset(shape, p)); }

std::vector<int64_t> lengths_of(const Meta& m) { return {m.shape, m.shape + m.rank}; }

Array array_of(const Tensor& x) {
  Array a(lengths_of(x.impl().view.meta), x.dtype());
  if (is_floating(x.dtype())) {
    const std::vector<double> v = x.to_vector<double>();
    std::copy(v.begin(), v.end(), a.values.begin());
  } else {
    const std::vector<int64_t> v = x.astype(i64).to_vector<int64_t>();
    std::copy(v.begin(), v.end(), a.values.begin());
  }
  return a;
}

Real held(Real v, DType d) {
  return dispatch(d, [v](auto type) -> Real {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      return v != 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<Real>(static_cast<T>(static_cast<int64_t>(v)));
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<Real>(static_cast<T>(v));
    else
      return static_cast<Real>(static_cast<float>(T(static_cast<float>(v))));
  });
}

Array mapped(const Array& x, const std::function<Real(Real)>& f) {
  Array y = x;
  std::ranges::transform(x.values, y.values.begin(), f);
  return y;
}

std::vector<int64_t> common_shape(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> shape(std::max(a.size(), b.size()), 1);
  for (const auto* from : {&a, &b})
    for (size_t i = 0; i < from->size(); ++i)
      if (int64_t& n = shape[i + shape.size() - from->size()]; n == 1) n = (*from)[i];
  return shape;
}

Array spread(const Array& x, const std::vector<int64_t>& shape) {
  Array y(shape, x.dtype);
  each_place(shape, [&](const Place& p) {
    Place own(p.end() - x.rank(), p.end());
    for (size_t i = 0; i < own.size(); ++i)
      if (x.shape[i] == 1) own[i] = 0;
    y.at(p) = x.at(own);
  });
  return y;
}

Array combined(const Array& x, const Array& y, const std::function<Real(Real, Real)>& f) {
  const std::vector<int64_t> shape = common_shape(x.shape, y.shape);
  Array z = spread(x, shape);
  const Array other = spread(y, shape);
  for (size_t i = 0; i < z.values.size(); ++i) z.values[i] = f(z.values[i], other.values[i]);
  return z;
}

References::References(std::vector<Reference> references) {
  for (Reference& r : references)
    if (std::string name = r.op; !all().emplace(name, std::move(r)).second)
      throw Error("reference: ", name, " has one already");
}

const Reference* find_reference(std::string_view op) {
  const auto at = all().find(op);
  return at == all().end() ? nullptr : &at->second;
}

}  // namespace locus::test
