// Values of attributes: their text, and what functions take.
#include <algorithm>
#include <array>
#include <optional>

#include <locus/core/error.h>
#include <locus/ops/named/function.h>

namespace locus::ops {
namespace {

std::string to_string(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::boolean:
      return s.integer() != 0 ? "true" : "false";
    case Scalar::Kind::integer:
      return s.beyond_i64() ? text_of(s.floating()) : text_of(s.integer());
    case Scalar::Kind::floating:
      break;
  }
  const std::string text = text_of(s.floating());
  return text.find_first_not_of("-0123456789") == text.npos ? text + "." : text;
}

std::optional<DType> dtype_in(std::string_view text) {
  static constexpr std::array<std::string_view, kNumDTypes> kNumPys = {
      "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "bool_"};
  for (int d = 0; d < kNumDTypes; ++d)
    if (text == name(static_cast<DType>(d)) || text == kNumPys[static_cast<size_t>(d)])
      return static_cast<DType>(d);
  return std::nullopt;
}

bool is_context(const std::string& text) try {
  Context::parse(text);
  return true;
} catch (const Error&) {
  return false;
}

bool is_integer(const Scalar& s) { return s.kind() == Scalar::Kind::integer && !s.beyond_i64(); }
bool is_real(const Scalar& s) { return s.kind() != Scalar::Kind::boolean; }

// The position of a word in "raise|clip|wrap", or -1.
int position(std::string_view words, std::string_view word) {
  for (int i = 0;; ++i) {
    const size_t end = words.find('|');
    if (words.substr(0, end) == word) return i;
    if (end == words.npos) return -1;
    words.remove_prefix(end + 1);
  }
}

}  // namespace

std::string to_string(const Value& v) {
  if (const auto* s = v.get<Scalar>()) return to_string(*s);
  if (const auto* text = v.get<std::string>()) return text_of('"', *text, '"');
  if (const auto* all = v.get<Value::Numbers>())
    return text_of('[', listed(*all, [](const Scalar& s) { return to_string(s); }), ']');
  if (const auto* dtype = v.get<DType>()) return name(*dtype);
  if (const auto* context = v.get<Context>()) return locus::to_string(*context);
  if (const auto* x = v.get<Tensor>()) return x->defined() ? describe(*x) : "an empty Tensor";
  return "none";
}

bool takes(const Function& f, size_t i, const Value& value) {
  const AttributeInfo& info = f.info.attributes[i];
  const auto* number = value.get<Scalar>();
  const auto* list = value.get<Value::Numbers>();
  const auto* text = value.get<std::string>();
  const auto* tensor = value.get<Tensor>();
  if (value.none() || (tensor && !tensor->defined()))
    return info.fallback == "none" || (f.kinds[i] != Kind::words && info.type.ends_with(kOrNone));
  switch (f.kinds[i]) {
    case Kind::boolean:
      return number && number->kind() == Scalar::Kind::boolean;
    case Kind::integer:
      return number && is_integer(*number);
    case Kind::floating:
      return number && is_real(*number);
    case Kind::number:
      return number;
    case Kind::text:
      return text;
    case Kind::ints:
      return number ? is_integer(*number) : list && std::ranges::all_of(*list, is_integer);
    case Kind::floats:
      return number ? is_real(*number) : list && std::ranges::all_of(*list, is_real);
    case Kind::dtype:
      return value.get<DType>() || (text && dtype_in(*text));
    case Kind::context:
      return value.get<Context>() || (text && is_context(*text));
    case Kind::tensor:
      return tensor;
    case Kind::float_or_text:
      return text || (number && is_real(*number));
    case Kind::words:
      break;
  }
  return text && position(info.type, *text) >= 0;
}

Result::operator Tensor() const {
  if (all_.size() != 1)
    throw Error("a call by name has ", all_.size(),
                " results; expected one, to convert to a Tensor; convert to Tensors");
  return all_[0];
}

template <class T>
const T& Argument::as() const {
  if (const T* value = value_.get<T>()) return *value;
  throw ValueError(op_, ": ", info_.name, ": ", info_.type, " is ", to_string(value_),
                   "; the function takes another type: correct its signature");
}
template <class T>
T Argument::integer(const Scalar& number) const {
  if (!std::in_range<T>(number.integer()))
    throw ValueError(op_, ": ", info_.name, " is ", to_string(number), "; expected an integer of ",
                     8 * sizeof(T), " bits");
  return static_cast<T>(number.integer());
}

Argument::operator bool() const { return as<Scalar>().integer() != 0; }
Argument::operator int() const { return integer<int>(as<Scalar>()); }
Argument::operator int64_t() const { return as<Scalar>().integer(); }
Argument::operator double() const { return as<Scalar>().floating(); }
Argument::operator Scalar() const { return as<Scalar>(); }
Argument::operator std::string_view() const {
  return none() ? std::string_view() : as<std::string>();
}
Argument::operator DType() const {
  const auto* text = value_.get<std::string>();
  return text ? dtype_in(*text).value() : as<DType>();
}
Argument::operator Context() const {
  const auto* text = value_.get<std::string>();
  return text ? Context::parse(*text) : as<Context>();
}
Argument::operator Tensor() const { return none() ? Tensor() : as<Tensor>(); }

Argument::operator std::vector<int64_t>() const {
  std::vector<int64_t> all;
  if (const auto* one = value_.get<Scalar>())
    all.push_back(one->integer());
  else if (!none())
    for (const Scalar& s : as<Value::Numbers>()) all.push_back(s.integer());
  return all;
}
Argument::operator std::vector<int>() const {
  std::vector<int> all;
  for (const int64_t v : static_cast<std::vector<int64_t>>(*this)) all.push_back(integer<int>(v));
  return all;
}
Argument::operator std::vector<double>() const {
  std::vector<double> all;
  if (const auto* one = value_.get<Scalar>())
    all.push_back(one->floating());
  else if (!none())
    for (const Scalar& s : as<Value::Numbers>()) all.push_back(s.floating());
  return all;
}
Argument::operator Shape() const {
  const std::vector<int64_t> lengths = *this;
  return Shape(lengths);
}

int Argument::word() const {
  const auto* text = value_.get<std::string>();
  return std::max(0, position(info_.type, text ? *text : "none"));
}

}  // namespace locus::ops
