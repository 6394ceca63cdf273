#include <locus/core/io/print.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <ostream>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/base/text.h>
#include <locus/core/dtype.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/trace.h>
#include <locus/core/tensor.h>

namespace locus {
namespace {

constexpr int64_t kThreshold = 1000;  // elements; if more, axes are summarised
constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 75;
constexpr int kPrecision = 8;
constexpr int kUncut = std::numeric_limits<int>::max();

// |value| = 0.d1d2d3... * 10^point, without trailing zeros; zero is "0" with point 1.
struct Decimal {
  std::string digits;
  int point = 1;
};

// From "1.25e-03".
Decimal parse_scientific(const std::string& text) {
  const size_t e = text.find('e');
  Decimal d{text.substr(0, e), std::stoi(text.substr(e + 1)) + 1};
  std::erase(d.digits, '.');
  d.digits.erase(std::max<size_t>(d.digits.find_last_not_of('0') + 1, 1));
  return d;
}
// With `decimals` digits after the first.
Decimal rounded(double a, int decimals) { return parse_scientific(formatted("%.*e", decimals, a)); }

// A 16-bit float format: bits of the significand and smallest exponent.
struct Format16 {
  int precision, min_exponent;
};
constexpr Format16 kHalf{11, -14}, kBFloat16{8, -126};

// The shortest digits in the interval that rounds to `a`. For even significands the ends belong to
// the interval. At a power of two it is asymmetric: the nearest decimal may be outside while the
// one on the other side is inside.
Decimal shortest16(double a, Format16 format) {
  int e = 0;
  const double m = std::frexp(a, &e);
  e = std::max(e - 1, format.min_exponent);
  const double gap = std::ldexp(1.0, e - format.precision + 1);
  const bool boundary = m == 0.5 && e > format.min_exponent;
  const double low = a - (boundary ? gap / 4 : gap / 2), high = a + gap / 2;
  const bool even = std::fmod(a / gap, 2.0) == 0;
  for (int decimals = 0; decimals < 17; ++decimals) {
    const Decimal nearest = rounded(a, decimals);
    const int unit = nearest.point - 1 - decimals;
    const auto value = [&](int64_t n) {
      return std::strtod(formatted("%" PRId64 "e%d", n, unit).c_str(), nullptr);
    };
    std::string digits = nearest.digits;
    digits.resize(static_cast<size_t>(decimals) + 1, '0');
    const int64_t n = std::stoll(digits);
    for (const int64_t candidate : {n, value(n) > a ? n - 1 : n + 1}) {
      const double back = value(candidate);
      if (!((back > low && back < high) || (even && (back == low || back == high)))) continue;
      return candidate == n ? nearest : rounded(back, decimals);
    }
  }
  return rounded(a, 17);
}

// The shortest digits that round-trip in `dtype`. `a` is finite and not negative.
Decimal shortest(double a, DType dtype) {
  if (a == 0) return {"0", 1};
  if (dtype == f16) return shortest16(a, kHalf);
  if (dtype == bf16) return shortest16(a, kBFloat16);
  char text[48];
  const auto to_chars = [&](auto value) {
    return std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  };
  return parse_scientific({text, dtype == f32 ? to_chars(static_cast<float>(a)) : to_chars(a)});
}

// "12.5": at most `precision` decimals, without trailing zeros, with the point. The digits are the
// shortest; only a cut rounds the exact value. Integers are exact in an array, and padded with
// zeros in a scalar.
std::string positional(double v, DType dtype, int precision) {
  const std::string sign = std::signbit(v) ? "-" : "";
  const Decimal d = shortest(std::fabs(v), dtype);
  const int n = static_cast<int>(d.digits.size());
  if (n - d.point > precision) {
    const std::string s = formatted("%.*f", precision, std::fabs(v));
    return sign + s.substr(0, s.find_last_not_of('0') + 1);
  }
  if (d.digits == "0") return sign + "0.";
  if (n <= d.point && precision == kUncut)
    return sign + d.digits + std::string(static_cast<size_t>(d.point - n), '0') + '.';
  if (n <= d.point) return sign + formatted("%.0f.", std::fabs(v));
  std::string s = d.point > 0 ? d.digits.substr(0, static_cast<size_t>(d.point)) : "0";
  s += '.';
  if (d.point < 0) s.append(static_cast<size_t>(-d.point), '0');
  s += d.digits.substr(static_cast<size_t>(std::max(d.point, 0)));
  return sign + s;
}

std::string nonfinite(double v) { return std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf"; }

std::string padded(const std::string& s, size_t width) {
  return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}

// As numpy.str_ of a scalar: at least one decimal, never cut.
std::string format_scalar(double v, DType dtype) {
  if (!std::isfinite(v)) return nonfinite(v);
  const double a = std::fabs(v);
  if (a == 0 || (a >= 1e-4 && a < 1e16)) {
    const std::string s = positional(v, dtype, kUncut);
    return s.back() == '.' ? s + "0" : s;
  }
  const Decimal d = shortest(a, dtype);
  std::string s = (v < 0 ? "-" : "") + d.digits.substr(0, 1);
  if (d.digits.size() > 1) s += "." + d.digits.substr(1);
  return s + formatted("e%+03d", d.point - 1);
}

double quotient(double a, double b, DType dtype) {
  if (dtype == f64) return a / b;
  const float q = static_cast<float>(a) / static_cast<float>(b);
  if (dtype == f16) return static_cast<float>(Half(q));
  if (dtype == bf16) return static_cast<float>(BFloat16(q));
  return q;
}

// One format for all printed elements.
class FloatFormat {
 public:
  FloatFormat(const std::vector<double>& values, DType dtype) : dtype_(dtype) {
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    bool any_finite = false, any_other = false, negative_infinity = false;
    for (const double v : values) {
      if (!std::isfinite(v)) {
        any_other = true;
        negative_infinity |= std::isinf(v) && v < 0;
        continue;
      }
      any_finite = true;
      if (v == 0) continue;
      largest = std::max(largest, std::fabs(v));
      smallest = std::min(smallest, std::fabs(v));
    }
    scientific_ = largest > 0 &&
                  (largest >= 1e8 || smallest < 1e-4 || quotient(largest, smallest, dtype) > 1000);
    if (any_finite) scientific_ ? fit_scientific(values) : fit_positional(values);
    if (any_other) {
      const size_t widest = negative_infinity ? 4 : 3;
      if (left_ + 1 + right_ < widest) left_ = widest - 1 - right_;
    }
  }

  std::string operator()(double v) const {
    if (!std::isfinite(v)) return padded(nonfinite(v), left_ + 1 + right_);
    if (scientific_) return padded(scientific(v), left_ + 1 + right_);
    std::string s = positional(v, dtype_, kPrecision);
    const size_t point = s.find('.');
    s.append(right_ - (s.size() - point - 1), ' ');
    return std::string(left_ - point, ' ') + s;
  }

 private:
  void fit_positional(const std::vector<double>& values) {
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      const std::string s = positional(v, dtype_, kPrecision);
      left_ = std::max(left_, s.find('.'));
      right_ = std::max(right_, s.size() - s.find('.') - 1);
    }
  }
  void fit_scientific(const std::vector<double>& values) {
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      int n = static_cast<int>(shortest(std::fabs(v), dtype_).digits.size()) - 1;
      if (n > kPrecision)  // the cut may leave zeros at the end
        n = static_cast<int>(rounded(std::fabs(v), kPrecision).digits.size()) - 1;
      decimals_ = std::max(decimals_, n);
    }
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      left_ = std::max<size_t>(left_, std::signbit(v) ? 2 : 1);
      const std::string text = formatted("%.*e", decimals_, v);
      exponent_digits_ = std::max(exponent_digits_, text.size() - text.find('e') - 2);
    }
    right_ = exponent_digits_ + 2 + static_cast<size_t>(decimals_);
  }
  std::string scientific(double v) const {
    Decimal d = shortest(std::fabs(v), dtype_);
    if (v == 0 || static_cast<int>(d.digits.size()) != decimals_ + 1)
      d = rounded(std::fabs(v), decimals_);
    d.digits.resize(static_cast<size_t>(decimals_) + 1, '0');
    const int exponent = d.point - 1;
    const std::string magnitude = std::to_string(std::abs(v == 0 ? 0 : exponent));
    return (std::signbit(v) ? "-" : "") + d.digits.substr(0, 1) + '.' + d.digits.substr(1) +
           (exponent < 0 ? "e-" : "e+") + std::string(exponent_digits_ - magnitude.size(), '0') +
           magnitude;
  }

  DType dtype_;
  bool scientific_ = false;
  size_t left_ = 0, right_ = 0;  // characters before and after the point
  int decimals_ = 0;
  size_t exponent_digits_ = 2;
};

class Printer {
 public:
  Printer(const void* data, const Meta& meta) : data_(data), meta_(meta) {
    row_major(meta, strides_);
    summarise_ = meta.size() > kThreshold;
  }

  std::string run() {
    if (meta_.size() == 0) return "[]";
    if (meta_.rank == 0)
      return is_floating(meta_.dtype) ? format_scalar(real(0), meta_.dtype) : integer(0);
    std::vector<int64_t> shown;
    collect(0, 0, shown);
    if (is_floating(meta_.dtype)) {
      std::vector<double> values;
      values.reserve(shown.size());
      for (const int64_t i : shown) values.push_back(real(i));
      word_ = [this, f = FloatFormat(values, meta_.dtype)](int64_t i) { return f(real(i)); };
    } else {
      size_t width = meta_.dtype == bool_ ? 5 : 0;
      for (const int64_t i : shown) width = std::max(width, integer(i).size());
      word_ = [this, width](int64_t i) { return padded(integer(i), width); };
    }
    return block(0, 0, " ", kLineWidth);
  }

 private:
  double real(int64_t i) const {
    return dispatch(meta_.dtype, [&](auto type) -> double {
      const auto v = static_cast<const typename decltype(type)::type*>(data_)[i];
      if constexpr (std::is_class_v<decltype(v)>)
        return static_cast<float>(v);
      else
        return static_cast<double>(v);
    });
  }
  std::string integer(int64_t i) const {
    if (meta_.dtype == bool_) return static_cast<const uint8_t*>(data_)[i] != 0 ? "True" : "False";
    return dispatch(meta_.dtype, [&](auto type) -> std::string {
      using T = typename decltype(type)::type;
      if constexpr (std::is_integral_v<T>) return std::to_string(static_cast<const T*>(data_)[i]);
      return {};
    });
  }

  bool summarised(int axis) const { return summarise_ && meta_.shape[axis] > 2 * kEdge; }

  void collect(int axis, int64_t offset, std::vector<int64_t>& shown) const {
    if (axis == meta_.rank) {
      shown.push_back(offset);
      return;
    }
    const int64_t n = meta_.shape[axis];
    for (int64_t i = 0; i < n; ++i) {
      if (summarised(axis) && i == kEdge) i = n - kEdge;
      collect(axis + 1, offset + i * strides_[axis], shown);
    }
  }

  // The text of a sub-array. `indent` starts continuation lines. `width`: characters per line.
  std::string block(int axis, int64_t offset, const std::string& indent, size_t width) const {
    const int64_t n = meta_.shape[axis];
    const bool innermost = axis + 1 == meta_.rank;
    std::string text, line = indent;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = offset + i * strides_[axis];
      const bool gap = summarised(axis) && i == kEdge;
      if (gap) i = n - kEdge - 1;
      const bool last = i + 1 == n;
      const std::string piece = gap         ? "..."
                                : innermost ? word_(at)
                                            : block(axis + 1, at, indent + ' ', width - 1);
      if (!innermost) {
        text += line + piece;
        line = last ? "" : std::string(static_cast<size_t>(meta_.rank - axis - 1), '\n') + indent;
        continue;
      }
      if (line.size() + piece.size() > width - 1 && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
        line = indent;
      }
      line += piece;
      if (!last) line += ' ';
    }
    text += line;
    return '[' + text.substr(indent.size()) + ']';
  }

  const void* data_;
  Meta meta_;
  int64_t strides_[kMaxRank] = {};
  bool summarise_ = false;
  std::function<std::string(int64_t)> word_;
};

}  // namespace

std::string format_array(const void* data, const Meta& meta) { return Printer(data, meta).run(); }

std::ostream& operator<<(std::ostream& os, At<Tensor> x) try {
  const UserLine user_line(x.from);
  if (!x.value.defined()) return os << "Tensor()";
  const tracing::Scope scope(TransferKind::print, x.from);
  capture::check_wait(x.value.context(), "print", x.from);
  const Tensor host = x.value.detach().as_in_context(cpu(), x.from);
  const Tensor packed = host.contiguous() ? host : row_major_copy(host, host.dtype());
  packed.impl().storage->wait_host();
  os << format_array(packed.impl().view.data, packed.impl().view.meta) << "\n<Tensor";
  const Shape shape = x.value.shape();
  for (int i = 0; i < shape.rank(); ++i)
    os << (i > 0 ? "x" : " ") << std::to_string(shape.begin()[i]);
  if (x.value.dtype() != f32) os << " " << x.value.dtype();
  return os << " @" << x.value.context() << ">";
} catch (const Error&) {
  rethrow_at(x.from);
}

}  // namespace locus
