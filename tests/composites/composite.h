// A sample of a composite (a function of ops/*.h made of other ops) with an independent formula on
// host numbers.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::test {

using Indices = std::vector<int64_t>;

// Doubles in row-major order.
struct Host {
  Shape shape;
  std::vector<double> numbers;

  double at(const Indices& i) const {
    int64_t flat = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      flat = flat * shape[axis] + i[static_cast<size_t>(axis)];
    return numbers[static_cast<size_t>(flat)];
  }
};

inline Host host(const Shape& shape, const std::function<double(const Indices&)>& f) {
  Host out{shape, {}};
  Indices i(static_cast<size_t>(shape.rank()));
  for (int64_t n = shape.size(); n > 0; --n) {
    out.numbers.push_back(f(i));
    for (int axis = shape.rank() - 1; axis >= 0; --axis)
      if (++i[static_cast<size_t>(axis)] < shape[axis])
        break;
      else
        i[static_cast<size_t>(axis)] = 0;
  }
  return out;
}

using Hosts = std::vector<Host>;

inline const std::vector<DType> kFloating = {f32, f64, f16, bf16};
inline const std::vector<DType> kAll = {f32, f64, f16, bf16, i32, i64, i8, u8, bool_};

struct Composite {
  const char* name;
  std::vector<Shape> inputs;
  std::function<Tensors(const Tensors&, TensorOptions)> call;
  std::function<Hosts(const Hosts&)> formula;
  std::vector<DType> dtypes = kAll;
  std::optional<DType> result = {};  // unset: the dtype of the inputs
  bool view = false;
  bool in_any_order = false;  // only the order of the result is random
  double low = -2;            // of the inputs' values
};
inline void PrintTo(const Composite& f, std::ostream* os) { *os << f.name; }

}  // namespace locus::test
