// The subscripts of einsum, parsed and compared with the operands. Internal to ops/products.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <locus/ops/products/term.h>

namespace locus::detail {

class Subscripts {
 public:
  // Throws ValueError or ShapeError, as ops/einsum.h says.
  Subscripts(std::string_view text, const Tensors& operands);

  // A letter's label is its code. Label kEllipsis + i is axis i of the ellipses, counted from the
  // right.
  static constexpr int kEllipsis = 128;

  const std::vector<Labels>& operands() const { return operands_; }  // a label for each axis
  const Labels& result() const { return result_; }
  int64_t length(int label) const { return axes_.at(label).length; }

 private:
  struct Symbol {
    int label;  // a letter, or kEllipsis for an ellipsis
    size_t position;
  };
  // The letters and the ellipsis of one operand or of the result.
  struct ParsedTerm {
    size_t position;
    std::vector<Symbol> symbols;
  };
  // The length of a label, and the operand and position that set it.
  struct Axis {
    int64_t length;
    size_t operand, position;
  };

  std::string begin_error(size_t position) const;
  std::string describe_operand(size_t i) const;
  Symbol parse_symbol(size_t& i, const ParsedTerm& term) const;
  void parse();
  void check_count() const;
  void label_axes(size_t operand);
  void record_length(int label, size_t operand, size_t position, int64_t length);
  void label_result();
  void label_implicit_result();
  void label_explicit_result(const ParsedTerm& output);
  void add_ellipsis_to_result();

  std::string_view text_;
  const Tensors& tensors_;
  std::vector<ParsedTerm> terms_;
  std::optional<ParsedTerm> output_;
  std::map<int, Axis> axes_;
  int ellipsis_ = 0;  // the most axes that an ellipsis stands for
  std::vector<Labels> operands_;
  Labels result_;
};

}  // namespace locus::detail
