#include <locus/ops/products/subscripts.h>

#include <algorithm>

#include <locus/core/error.h>

namespace locus::detail {
namespace {

bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Bytes other than printable ASCII characters become \x and two digits. A byte 0 would end the
// error text early.
std::string escape(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~')
      escaped += c;
    else
      escaped += std::string("\\x") + kDigits[byte / 16] + kDigits[byte % 16];
  }
  return escaped;
}

std::string describe_label(int label) {
  if (label < Subscripts::kEllipsis) return text_of("'", static_cast<char>(label), "'");
  return text_of("axis ", Subscripts::kEllipsis - label - 1, " of the ellipsis");
}

}  // namespace

std::string Subscripts::begin_error(size_t position) const {
  return text_of("einsum: subscripts \"", escape(text_), "\", position ", position, ": ");
}
std::string Subscripts::describe_operand(size_t i) const {
  return text_of("operand ", i, " ", describe(tensors_[i]));
}

Subscripts::Subscripts(std::string_view text, const Tensors& operands)
    : text_(text), tensors_(operands) {
  parse();
  for (size_t i = 0; i < tensors_.size(); ++i) label_axes(i);
  label_result();
}

// Parses the letter or ellipsis at i, and moves i to its last character. `term` has the symbols
// before i.
Subscripts::Symbol Subscripts::parse_symbol(size_t& i, const ParsedTerm& term) const {
  const char c = text_[i];
  if (is_letter(c)) return {c, i};
  if (c != '.')
    throw ValueError(begin_error(i), "'", escape({&c, 1}),
                     "' is no letter; expected letters, ',', '...' or '->'");
  const size_t dots = std::min(text_.find_first_not_of('.', i), text_.size()) - i;
  if (dots != 3)
    throw ValueError(begin_error(i), dots, dots == 1 ? " dot" : " dots",
                     "; expected the three dots of an ellipsis");
  const auto is_ellipsis = [](const Symbol& s) { return s.label == kEllipsis; };
  if (std::ranges::any_of(term.symbols, is_ellipsis))
    throw ValueError(begin_error(i), "a second ellipsis in one term; expected at most one");
  i += 2;
  return {kEllipsis, i - 2};
}

void Subscripts::parse() {
  ParsedTerm term{0, {}};
  bool arrow = false;
  for (size_t i = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == ' ') continue;
    if (c == ',') {
      if (arrow)
        throw ValueError(begin_error(i), "',' behind '->'; expected one term for the result");
      terms_.push_back(std::move(term));
      term = {i + 1, {}};
    } else if (c == '-' || c == '>') {
      if (text_.substr(i, 2) != "->")
        throw ValueError(begin_error(i), "'", escape({&c, 1}), "' alone; expected '->'");
      if (arrow) throw ValueError(begin_error(i), "a second '->'; expected at most one");
      arrow = true;
      terms_.push_back(std::move(term));
      term = {i + 2, {}};
      ++i;
    } else {
      term.symbols.push_back(parse_symbol(i, term));
    }
  }
  if (arrow)
    output_ = std::move(term);
  else
    terms_.push_back(std::move(term));
  check_count();
}

void Subscripts::check_count() const {
  const size_t terms = terms_.size(), operands = tensors_.size();
  if (terms > operands)
    throw ValueError(begin_error(terms_[operands].position), "term ", operands,
                     " has no operand; got ", operands,
                     operands == 1 ? " operand for " : " operands for ", terms,
                     terms == 1 ? " term" : " terms");
  if (terms < operands)
    throw ValueError(begin_error(std::min(text_.find("->"), text_.size())), describe_operand(terms),
                     " has no term; got ", operands, " operands for ", terms,
                     terms == 1 ? " term" : " terms", "; add a term behind ','");
}

// Records the length of the next axis of `operand`. Throws ShapeError if another axis of the label
// has another length. Length 1 fits any length, except in a diagonal.
void Subscripts::record_length(int label, size_t operand, size_t position, int64_t length) {
  const Labels& before = operands_.back();
  for (size_t i = 0; i < before.size(); ++i) {
    const int64_t other = tensors_[operand].shape()[static_cast<int>(i)];
    if (before[i] == label && other != length)
      throw ShapeError(begin_error(position), describe_label(label), " has lengths ", other,
                       " and ", length, " in ", describe_operand(operand),
                       "; expected equal lengths for a diagonal");
  }
  Axis& known = axes_.try_emplace(label, Axis{length, operand, position}).first->second;
  if (known.length == length || length == 1) return;
  if (known.length != 1)
    throw ShapeError(begin_error(position), describe_label(label), " has length ", length, " in ",
                     describe_operand(operand), " and ", known.length, " in ",
                     describe_operand(known.operand), ", position ", known.position,
                     "; expected equal lengths, or 1");
  known = {length, operand, position};
}

void Subscripts::label_axes(size_t operand) {
  const ParsedTerm& term = terms_[operand];
  const Shape shape = tensors_[operand].shape();
  const auto dots = std::ranges::find(term.symbols, kEllipsis, &Symbol::label);
  const bool has_ellipsis = dots != term.symbols.end();
  const int letters = static_cast<int>(term.symbols.size()) - (has_ellipsis ? 1 : 0);
  const int rest = shape.rank() - letters;
  if (has_ellipsis ? rest < 0 : rest != 0)
    throw ShapeError(begin_error(term.position), describe_operand(operand), " has ", shape.rank(),
                     shape.rank() == 1 ? " axis" : " axes", ", and its term has ", letters,
                     letters == 1 ? " letter" : " letters",
                     has_ellipsis ? "; expected at most as many letters as axes"
                     : rest > 0   ? "; expected a letter for each axis, or an ellipsis"
                                  : "; expected a letter for each axis");
  if (has_ellipsis) ellipsis_ = std::max(ellipsis_, rest);
  operands_.emplace_back();
  Labels& labels = operands_.back();
  const auto add = [&](int label, size_t position) {
    record_length(label, operand, position, shape[static_cast<int>(labels.size())]);
    labels.push_back(label);
  };
  for (const Symbol& s : term.symbols)
    if (s.label != kEllipsis)
      add(s.label, s.position);
    else
      for (int i = rest; i-- > 0;) add(kEllipsis + i, s.position);
}

void Subscripts::add_ellipsis_to_result() {
  for (int i = ellipsis_; i-- > 0;) result_.push_back(kEllipsis + i);
}

void Subscripts::label_implicit_result() {
  add_ellipsis_to_result();
  std::map<int, int> counts;
  for (const Labels& labels : operands_)
    for (int label : labels)
      if (label < kEllipsis) ++counts[label];
  for (const auto& [label, n] : counts)
    if (n == 1) result_.push_back(label);
}

void Subscripts::label_explicit_result(const ParsedTerm& output) {
  bool has_ellipsis = false;
  for (const Symbol& s : output.symbols) {
    if (s.label == kEllipsis) {
      has_ellipsis = true;
      add_ellipsis_to_result();
      continue;
    }
    if (!axes_.contains(s.label))
      throw ValueError(begin_error(s.position), describe_label(s.label),
                       " of the result is in no operand's term; expected a letter of a term");
    if (contains(result_, s.label))
      throw ValueError(begin_error(s.position), describe_label(s.label),
                       " is twice in the result; expected each letter once");
    result_.push_back(s.label);
  }
  if (!has_ellipsis && ellipsis_ > 0)
    throw ShapeError(begin_error(output.position), "the result lacks the ", ellipsis_,
                     ellipsis_ == 1 ? " axis" : " axes",
                     " of the operands' ellipses; add '...' behind '->', or write letters for ",
                     "the axes to be summed");
}

void Subscripts::label_result() {
  if (output_)
    label_explicit_result(*output_);
  else
    label_implicit_result();
  if (result_.size() > static_cast<size_t>(kMaxRank))
    throw ShapeError(begin_error(output_ ? output_->position : 0), "the result has ",
                     result_.size(), " axes; expected at most ", kMaxRank);
}

}  // namespace locus::detail
