#include <locus/ops/jit/parameters.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <locus/core/base/text.h>
#include <locus/core/error.h>

namespace locus::jit {
namespace {

constexpr std::string_view kKeywords[] = {
    "thread_local", "wchar_t",      "char8_t",     "char16_t",     "char32_t",
    "constinit",    "const_cast",   "static_cast", "dynamic_cast", "reinterpret_cast",
    "co_await",     "co_return",    "co_yield",    "alignas",      "alignof",
    "and",          "and_eq",       "asm",         "auto",         "bitand",
    "bitor",        "bool",         "break",       "case",         "catch",
    "char",         "class",        "compl",       "concept",      "const",
    "continue",     "decltype",     "default",     "delete",       "do",
    "double",       "else",         "enum",        "explicit",     "export",
    "extern",       "false",        "float",       "for",          "friend",
    "goto",         "if",           "inline",      "int",          "long",
    "mutable",      "namespace",    "new",         "noexcept",     "not",
    "not_eq",       "nullptr",      "operator",    "or",           "or_eq",
    "private",      "protected",    "public",      "register",     "requires",
    "return",       "short",        "signed",      "sizeof",       "static",
    "struct",       "switch",       "template",    "this",         "throw",
    "true",         "try",          "typedef",     "typeid",       "typename",
    "union",        "unsigned",     "using",       "virtual",      "void",
    "volatile",     "while",        "xor",         "xor_eq",       "constexpr",
    "consteval",    "static_assert"};

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"f32", f32},       {"float32", f32},      {"float", f32},  {"f64", f64},
    {"float64", f64},   {"double", f64},       {"f16", f16},    {"float16", f16},
    {"half", f16},      {"Half", f16},         {"bf16", bf16},  {"bfloat16", bf16},
    {"BFloat16", bf16}, {"i32", i32},          {"int32", i32},  {"int32_t", i32},
    {"int", i32},       {"i64", i64},          {"int64", i64},  {"int64_t", i64},
    {"long", i64},      {"long long", i64},    {"u8", u8},      {"uint8", u8},
    {"uint8_t", u8},    {"unsigned char", u8}, {"i8", i8},      {"int8", i8},
    {"int8_t", i8},     {"signed char", i8},   {"bool", bool_}, {"bool_", bool_}};

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }

bool identifier(std::string_view s) {
  return !s.empty() && starts_name(s[0]) && std::ranges::all_of(s, in_name) &&
         std::ranges::find(kKeywords, s) == std::end(kKeywords);
}

// Sets the parameter's type. `words`: the type's.
void set_type(std::string_view who, Parameter& p, const std::vector<std::string>& words,
              bool letters) {
  const std::string type = listed(words, std::identity(), " ");
  if (const auto found = dtype_named(type)) {
    p.dtype = *found;
    return;
  }
  if (letters && type.size() == 1 && std::isalpha(static_cast<unsigned char>(type[0]))) {
    p.letter = type;
    return;
  }
  throw ValueError(
      who, ": the type ", type, " of the parameter \"", p.text,
      "\" is not known; expected f32, f64, f16, bf16, i32, i64, u8, i8 or bool, a name "
      "such as float32, float, double, half, int or int64",
      letters ? ", or one letter" : text_of("; ", kFourTexts));
}

// Calls each(text, words) for the items between commas. No items: nothing.
void for_items(std::string_view who, std::string_view list, const auto& each) {
  if (tokens_of(list).empty()) return;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::vector<std::string> words = tokens_of(list.substr(begin, end - begin));
    if (words.empty())
      throw ValueError(who, ": the list \"", list,
                       "\" has an empty parameter; expected a type and "
                       "a name between commas");
    each(listed(words, std::identity(), " "), words);
    begin = end + 1;
  }
}

}  // namespace

std::optional<DType> dtype_named(std::string_view type) {
  const auto found = std::ranges::find(kTypes, type, &std::pair<std::string_view, DType>::first);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

Parameters parse_parameters(std::string_view who, std::string_view list, bool outputs) {
  Parameters all;
  for_items(who, list, [&](std::string text, std::vector<std::string> words) {
    Parameter p;
    p.text = std::move(text);
    p.written = outputs;
    if (words[0] == "raw") {
      p.raw = true;
      words.erase(words.begin());
    }
    if (words.size() < 2 || !std::ranges::all_of(words, [](const std::string& w) {
          return starts_name(w[0]) || std::isdigit(static_cast<unsigned char>(w[0]));
        }))
      throw ValueError(who, ": the parameter \"", p.text,
                       "\" is not of the form \"[raw] TYPE NAME\"",
                       std::ranges::find(words, "*") == words.end()
                           ? ""
                           : "; pointers are for kernels with one list of parameters");
    p.name = words.back();
    words.pop_back();
    set_type(who, p, words, true);
    all.push_back(std::move(p));
  });
  return all;
}

Parameters parse_pointers(std::string_view who, std::string_view list) {
  Parameters all;
  for_items(who, list, [&](std::string text, std::vector<std::string> words) {
    Parameter p;
    p.text = std::move(text);
    p.name = words.back();
    words.pop_back();
    std::erase_if(words, [](const std::string& w) { return w == "__restrict__"; });
    const bool constant = std::erase(words, "const") > 0;
    p.pointer = p.raw = !words.empty() && words.back() == "*";
    if (p.pointer) words.pop_back();
    p.written = p.pointer && !constant;
    if (words.empty() ||
        !std::ranges::all_of(words, [](const std::string& w) { return starts_name(w[0]); }))
      throw ValueError(who, ": the parameter \"", p.text,
                       "\" is not of the form \"[const] TYPE *NAME\" or \"TYPE NAME\"");
    set_type(who, p, words, false);
    all.push_back(std::move(p));
  });
  return all;
}

void check_names(std::string_view who, const Parameters& parameters,
                 std::initializer_list<std::string_view> taken) {
  const auto is_taken = [&](std::string_view name) {
    return std::ranges::find(taken, name) != taken.end();
  };
  const std::string has = "the kernel has " + listed(taken) + " itself";
  if (parameters.size() > kMostOperands)
    throw ValueError(who, ": ", parameters.size(), " parameters; expected at most ", kMostOperands);
  for (auto p = parameters.begin(); p != parameters.end(); ++p) {
    const auto refuse = [&](const auto&... why) {
      throw ValueError(who, ": the name ", p->name, " of the parameter \"", p->text, "\" ", why...,
                       "; choose another name");
    };
    if (!identifier(p->name)) refuse("is no identifier of C++, or a keyword");
    if (p->name[0] == '_') refuse("begins with _, as names that the kernel has itself");
    if (is_taken(p->name)) refuse("is taken: ", has);
    if (is_taken(p->letter))
      throw ValueError(who, ": the type ", p->letter, " of the parameter \"", p->text,
                       "\" is taken: ", has, "; choose another letter");
    for (const Parameter& q : parameters)
      if (q.letter == p->name) refuse("is also the type of \"", q.text, "\"");
    if (std::any_of(parameters.begin(), p, [&](const Parameter& q) { return q.name == p->name; }))
      refuse("is there twice");
  }
}

void check_kernel_name(std::string_view type, std::string_view name, std::string_view texts) {
  if (!identifier(name))
    throw ValueError(
        type, ' ', name,
        ": the name is no identifier of C++, or a keyword; expected letters, digits and "
        "_, such as sqdiff",
        texts.empty() ? "" : "; ", texts);
}

std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::string_view rest = text.substr(at);
    size_t length = 1;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
      continue;
    }
    if (rest.starts_with("//") || rest.starts_with("/*")) {
      const bool line = rest[1] == '/';
      const size_t end = rest.find(line ? "\n" : "*/", 2);
      at = end == rest.npos ? text.size() : at + end + (line ? 1 : 2);
      continue;
    }
    if (in_name(c)) {
      while (length < rest.size() && in_name(rest[length])) ++length;
    } else if (c == '"' || c == '\'') {
      while (length < rest.size() && rest[length] != c) length += rest[length] == '\\' ? 2 : 1;
      length = std::min(length + 1, rest.size());
    } else if (rest.size() > 1 && rest[1] == '=' &&
               std::string_view("=!<>+-*/%&|^").find(c) != std::string_view::npos) {
      length = 2;
    }
    tokens.emplace_back(rest.substr(0, length));
    at += length;
  }
  return tokens;
}

bool names(const std::vector<std::string>& tokens, std::string_view word) {
  return std::ranges::find(tokens, word) != tokens.end();
}

bool has_integers(const std::vector<std::string>& tokens) {
  static constexpr std::string_view kWords[] = {"long",   "short", "char",   "unsigned",
                                                "signed", "auto",  "size_t", "ptrdiff_t",
                                                "i",      "n",     "_ind"};
  return std::ranges::any_of(tokens, [](const std::string& t) {
    return t.find("int") != t.npos || std::ranges::find(kWords, t) != std::end(kWords);
  });
}

void check_brackets(std::string_view who, std::string_view part, std::string_view text,
                    std::string_view preamble) {
  if (preamble.find('#') != preamble.npos) return;  // macros may have brackets
  constexpr std::string_view kOpen = "({[", kClose = ")}]";
  std::string open;
  for (const std::string& token : tokens_of(text)) {
    if (token.size() != 1) continue;
    if (kOpen.find(token[0]) != kOpen.npos) open += token[0];
    const size_t closes = kClose.find(token[0]);
    if (closes == kClose.npos) continue;
    if (open.empty() || open.back() != kOpen[closes])
      throw ValueError(who, ": ", part, " has a ", token, " without a ", kOpen[closes],
                       " before it");
    open.pop_back();
  }
  if (!open.empty())
    throw ValueError(who, ": ", part, " has a ", open.back(), " without a ",
                     kClose[kOpen.find(open.back())], " behind it");
}

void check_outputs(std::string_view who, const Parameters& all, std::string_view part,
                   std::string_view text, std::string_view preamble) {
  const auto tokens = tokens_of(text_of(preamble, ' ', text));
  if (names(tokens, "include")) return;  // a macro of the file may set it
  for (const Parameter& p : all)
    if (p.written && !names(tokens, p.name))
      throw ValueError(who, ": ", part, " never sets the output ", p.name, "; write ", p.name,
                       p.raw ? "[...] = ..." : " = ...");
}

std::vector<std::string> used(std::string_view body, std::string_view preamble) {
  std::vector<std::string> tokens = tokens_of(body);
  if (preamble.find('#') != preamble.npos) {  // it may have macros
    const std::vector<std::string> more = tokens_of(preamble);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

std::vector<bool> set_first(const std::vector<std::string>& body, const Parameters& parameters) {
  constexpr std::string_view kBranches[] = {"if", "else", "for",    "while", "do", "switch", "goto",
                                            "{",  "}",    "return", "#",     ":",  "try"};
  std::vector<bool> set(parameters.size()), read(parameters.size());
  constexpr size_t kNone = ~size_t{0};
  size_t pending = kNone;  // set by this statement
  int choices = 0;         // its ? without their :
  for (size_t at = 0; at < body.size(); ++at) {
    if (body[at] == "?") ++choices;
    if (body[at] == ":" && choices-- > 0) continue;
    if (std::ranges::find(kBranches, body[at]) != std::end(kBranches)) break;
    if (body[at] == ";") {
      choices = 0;
      if (pending != kNone && !read[pending]) set[pending] = true;
      pending = kNone;
      continue;
    }
    const auto p = std::ranges::find(parameters, body[at], &Parameter::name);
    if (p == parameters.end()) continue;
    const size_t k = static_cast<size_t>(p - parameters.begin());
    if (set[k]) continue;
    const bool starts = at == 0 || body[at - 1] == ";";
    if (starts && at + 1 < body.size() && body[at + 1] == "=")
      pending = k;
    else
      read[k] = true;
  }
  return set;
}

}  // namespace locus::jit
