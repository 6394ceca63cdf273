#include <locus/core/nan_check.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/environment.h>
#include <locus/core/error.h>
#include <locus/core/noncopyable.h>

namespace locus {
namespace {

thread_local bool looking = false;  // the reading itself runs ops
struct Looking : NonCopyable {
  Looking() { looking = true; }
  ~Looking() { looking = false; }
};

// How many elements are NaN, and the first of them in row-major order.
std::pair<int64_t, int64_t> count_and_first(const Tensor& x) {
  if (!is_floating(x.dtype()) || x.size() == 0) return {0, 0};
  std::vector<double> v(static_cast<size_t>(x.size()));
  x.to_host(v.data(), f64, Caller::here());
  int64_t n = 0, first = 0;
  for (size_t i = 0; i < v.size(); ++i)
    if (std::isnan(v[i]) && n++ == 0) first = static_cast<int64_t>(i);
  return {n, first};
}

std::string place(const Shape& shape, int64_t at) {
  std::string text;
  for (int i = shape.rank(); i-- > 0; at /= shape[i])
    text = std::to_string(at % shape[i]) + (text.empty() ? "" : ",") + text;
  return "(" + text + ")";
}

}  // namespace

bool checks_nan() {
  static const bool on = environment_choice("LOCUS_CHECK", {"nan"}).has_value();
  return on;
}

void refuse_nan(const Op& op, std::span<const Ref> in, const Tensor& result) {
  if (looking) return;
  const Looking now;
  const auto [n, first] = count_and_first(result);
  if (n == 0) return;
  std::string had;
  for (size_t i = 0; i < in.size(); ++i) {
    if (count_and_first(*in[i].tensor_).first == 0) continue;
    had += (had.empty() ? "" : ", ") +
           (i < op.arguments.size() ? op.arguments[i] : "operand " + std::to_string(i));
  }
  throw ValueError(op.name, ": ", n, " of ", result.size(), " elements of the result ",
                   describe(result), " are NaN, the first at ", place(result.shape(), first), "; ",
                   had.empty() ? "no operand has any" : had + " had some already",
                   " (LOCUS_CHECK=nan)");
}

}  // namespace locus
