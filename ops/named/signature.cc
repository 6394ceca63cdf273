// Parses signatures, and checks calls by them.
#include <array>
#include <utility>

#include <locus/core/base/edit_distance.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/error.h>
#include <locus/ops/named/function.h>

namespace locus::ops {
namespace {

constexpr std::array<std::pair<std::string_view, Kind>, 11> kTypes = {
    {{"bool", Kind::boolean},
     {"int", Kind::integer},
     {"float", Kind::floating},
     {"number", Kind::number},
     {"text", Kind::text},
     {"ints", Kind::ints},
     {"floats", Kind::floats},
     {"dtype", Kind::dtype},
     {"context", Kind::context},
     {"tensor", Kind::tensor},
     {"float|text", Kind::float_or_text}}};

// The texts before and after the first `mark`, without blanks; the second is empty without it.
std::pair<std::string_view, std::string_view> cut(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return {trimmed(text), {}};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + mark.size()))};
}

bool is_name(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == text.npos;
}

class Parser {
 public:
  explicit Parser(std::string_view signature) : signature_(signature) {
    const size_t open = signature.find('('), close = signature.rfind(')');
    if (open == signature.npos || close == signature.npos || close < open)
      malformed("expected NAME(INPUTS, ATTRIBUTES)");
    f_.info.name = trimmed(signature.substr(0, open));
    f_.info.signature = signature;
    if (!is_name(f_.info.name)) malformed("expected a name of letters, digits and _");
    results(trimmed(signature.substr(close + 1)));
    std::string_view rest = trimmed(signature.substr(open + 1, close - open - 1));
    while (!rest.empty()) {
      const auto [one, others] = cut(rest, ",");
      parameter(one);
      rest = others;
    }
  }
  Function take() { return std::move(f_); }

 private:
  [[noreturn]] void malformed(const std::string& why) const {
    throw ValueError("ops::define: signature \"", signature_, "\": ", why);
  }

  void results(std::string_view text) {
    if (text.empty()) return;
    const auto [before, number] = cut(text, "->");
    if (!before.empty()) malformed("expected -> and the number of results behind the parentheses");
    f_.info.results = number == "tensors" ? -1 : number_in<int>(number).value_or(0);
    if (f_.info.results == 0) malformed("expected a number of results, or -> tensors");
  }

  void parameter(std::string_view text) {
    const auto [declared, fallback] = cut(text, "=");
    auto [name, type] = cut(declared, ":");
    const bool variadic = name.starts_with('*');
    if (variadic) name.remove_prefix(1);
    if (!is_name(name)) malformed(text_of("expected a name in \"", text, '"'));
    for (const InputInfo& other : f_.inputs)
      if (other.name == name)
        malformed(text_of("expected each name once, \"", name, "\" is there twice"));
    for (const AttributeInfo& other : f_.info.attributes)
      if (other.name == name)
        malformed(text_of("expected each name once, \"", name, "\" is there twice"));
    if (!type.empty() && type != "operand") return attribute(name, type, fallback);
    if (!f_.info.attributes.empty() || f_.variadic || (variadic && !f_.inputs.empty()))
      malformed("expected inputs before attributes, and no input beside *data");
    const auto number = type == "operand" ? number_in<double>(fallback) : std::nullopt;
    if (!fallback.empty() && fallback != "none" && !number)
      malformed("expected none as an input's default, or a number as an operand's");
    const bool optional = !fallback.empty();
    if (!optional && !f_.inputs.empty() && f_.inputs.back().optional)
      malformed("expected inputs that may be left out behind the others");
    f_.variadic = variadic;
    f_.inputs.push_back({std::string(name), type == "operand", optional,
                         number ? Input(*number) : Input(Tensor())});
  }

  void attribute(std::string_view name, std::string_view type, std::string_view fallback) {
    const std::string_view base =
        type.ends_with(kOrNone) ? type.substr(0, type.size() - kOrNone.size()) : type;
    Kind kind = Kind::words;
    for (const auto& [text, known] : kTypes)
      if (text == base) kind = known;
    if (kind == Kind::words && type.find('|') == type.npos)
      malformed(text_of("expected a type, or words as in raise|clip, got \"", type, '"'));
    f_.info.attributes.push_back({std::string(name), std::string(type), std::string(fallback)});
    f_.kinds.push_back(kind);
    f_.fallbacks.push_back(fallback.empty() ? Value() : value(kind, fallback));
    if (!fallback.empty() && !takes(f_, f_.kinds.size() - 1, f_.fallbacks.back()))
      malformed(text_of("expected a default of type ", type, ", got \"", fallback, '"'));
  }

  static Value value(Kind kind, std::string_view text) {
    if (kind == Kind::words) return text;
    if (text == "none") return {};
    if (text == "true" || text == "false") return text == "true";
    const bool is_float = kind == Kind::floating || kind == Kind::floats;
    if (const auto i = number_in<int64_t>(text); i && !is_float) return *i;
    if (const auto d = number_in<double>(text)) return *d;
    return text;
  }

  const std::string_view signature_;
  Function f_;
};

std::string text_of_attribute(const AttributeInfo& a) {
  return text_of(a.name, ": ", a.type, a.fallback.empty() ? "" : " = ", a.fallback);
}

// What a value of this type is, for errors.
std::string words_of(const std::string& type) {
  if (type == "dtype")
    return "dtype: f32, f64, f16, bf16, i32, i64, u8, i8, bool, or NumPy's names";
  if (type == "context") return "a context such as cpu(0)";
  return type;
}

[[noreturn]] void no_attribute(const Function& f, const std::string& name) {
  std::string near;
  for (const AttributeInfo& a : f.info.attributes)
    if (edit_distance(a.name, name) <= 2) near += text_of(near.empty() ? "" : ", ", a.name);
  for (const InputInfo& in : f.inputs)
    if (in.name == name) near = text_of("the input ", name, ", which stands in the list of inputs");
  throw ValueError(f.info.name, ": there is no attribute \"", name, "\"",
                   near.empty() ? "" : "; near it: " + near, "; expected ",
                   f.info.attributes.empty()
                       ? "no attributes"
                       : "some of " + listed(f.info.attributes, text_of_attribute));
}

}  // namespace

Function parsed(std::string_view signature) { return Parser(signature).take(); }

void check_inputs(const Function& f, const Inputs& inputs) {
  const std::string& op = f.info.name;
  size_t least = 0;
  while (least < f.inputs.size() && !f.inputs[least].optional) ++least;
  const size_t most = f.inputs.size(), n = inputs.size();
  if (!f.variadic && (n < least || n > most))
    throw Error(op, ": ", n, n == 1 ? " input" : " inputs", "; expected ", least,
                least == most ? "" : text_of(" to ", most), most == 0 ? "" : ": ",
                listed(f.inputs, &InputInfo::name), "; attributes stand in a list of their own");
  for (size_t i = 0; i < n; ++i) {
    const InputInfo& info = f.inputs[f.variadic ? 0 : i];
    const std::string what = f.variadic ? text_of(info.name, " ", i) : info.name;
    if (inputs[i].is_number()) {
      if (info.operand) continue;
      throw ValueError(op, ": ", what, " is the number ", to_string(Value(inputs[i].number())),
                       "; expected a tensor");
    }
    if (!info.optional) locus::detail::expect_tensor(op, inputs[i].tensor(), what);
  }
}

std::vector<const Value*> values_of(const Function& f, const Attributes& given) {
  const std::vector<AttributeInfo>& infos = f.info.attributes;
  std::vector<const Value*> values(infos.size());
  for (const Attribute& a : given) {
    size_t i = 0;
    while (i < infos.size() && infos[i].name != a.name) ++i;
    if (i == infos.size()) no_attribute(f, a.name);
    if (values[i])
      throw ValueError(f.info.name, ": the attribute ", a.name,
                       " is given twice: ", to_string(*values[i]), " and ", to_string(a.value));
    if (!takes(f, i, a.value))
      throw ValueError(f.info.name, ": ", a.name, " is ", to_string(a.value), "; expected ",
                       words_of(infos[i].type), infos[i].fallback == "none" ? " or none" : "");
    values[i] = &a.value;
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    if (values[i]) continue;
    if (infos[i].fallback.empty())
      throw ValueError(f.info.name, ": the attribute ", infos[i].name, " is missing; expected ",
                       text_of_attribute(infos[i]), ", in ", f.info.signature);
    values[i] = &f.fallbacks[i];
  }
  return values;
}

}  // namespace locus::ops
