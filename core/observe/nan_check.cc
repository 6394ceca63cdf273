#include <locus/core/observe/nan_check.h>

#include <atomic>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/noncopyable.h>

namespace locus {
namespace {

std::atomic<int> expecting{0};

thread_local bool paused = false;

struct Found {
  int64_t nan = 0, first = 0;  // count, and row-major index of the first
  bool infinite = false;
};
Found look(const Tensor& x) {
  Found found;
  if (!is_floating(x.dtype()) || x.size() == 0) return found;
  std::vector<double> v(static_cast<size_t>(x.size()));
  x.to_host(v.data(), f64, Caller::here());
  for (size_t i = 0; i < v.size(); ++i) {
    found.infinite = found.infinite || std::isinf(v[i]);
    if (std::isnan(v[i]) && found.nan++ == 0) found.first = static_cast<int64_t>(i);
  }
  return found;
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

NanCheckPause::NanCheckPause() : outer_(std::exchange(paused, true)) {}
NanCheckPause::~NanCheckPause() { paused = outer_; }

void refuse_nan(const Op& op, std::span<const Ref> in, const Tensor& result) {
  if (paused) return;
  const NanCheckPause now;  // the reading itself runs ops
  const Found found = look(result);
  if (found.nan == 0) return;
  std::string had;
  for (size_t i = 0; i < in.size(); ++i) {
    const Found operand = look(*in[i].tensor_);
    if ((operand.nan > 0 || operand.infinite) && expecting > 0) return;
    if (operand.nan == 0) continue;
    had += (had.empty() ? "" : ", ") +
           (i < op.arguments.size() ? op.arguments[i] : "operand " + std::to_string(i));
  }
  throw ValueError(op.name, ": ", found.nan, " of ", result.size(), " elements of the result ",
                   describe(result), " are NaN, the first at ", place(result.shape(), found.first),
                   "; ", had.empty() ? "no operand has any" : had + " had some already",
                   " (LOCUS_CHECK=nan)");
}

void OverflowCheck::expect(bool overflows) {
  if (expects_.exchange(overflows) != overflows) expecting += overflows ? 1 : -1;
}

}  // namespace locus
