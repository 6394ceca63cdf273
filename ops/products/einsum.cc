#include <locus/ops/einsum.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/products/subscripts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using detail::Labels, detail::Subscripts, detail::Term, detail::has;

void drop(Labels& labels, int axis) { labels.erase(labels.begin() + axis); }

// Axis j of x repeats the label of axis i, with i < j. The diagonal becomes the last axis.
void take_diagonal(Term& t, int i, int j) {
  const int label = t.labels[static_cast<size_t>(i)];
  t.x = diagonal(t.x, 0, i, j);
  drop(t.labels, j);
  drop(t.labels, i);
  t.labels.push_back(label);
}
bool take_diagonal(Term& t) {
  for (int j = 1; j < t.x.ndim(); ++j)
    for (int i = 0; i < j; ++i)
      if (t.labels[static_cast<size_t>(i)] == t.labels[static_cast<size_t>(j)]) {
        take_diagonal(t, i, j);
        return true;
      }
  return false;
}

// An operand with distinct labels, without the axes of length 1 that are repeated or summed. The
// only operand keeps these axes, so that its sum is a new tensor.
Term term_of(const Tensor& x, const Labels& labels, const Subscripts& subscripts) {
  Term t{x, labels};
  while (take_diagonal(t)) {
  }
  if (subscripts.operands().size() == 1) return t;
  Labels rest;
  std::vector<int64_t> lengths;
  for (int i = 0; i < t.x.ndim(); ++i) {
    const int label = t.labels[static_cast<size_t>(i)];
    const int64_t n = t.x.shape()[i];
    if (n == 1 && (subscripts.length(label) != 1 || !has(subscripts.result(), label))) continue;
    rest.push_back(label);
    lengths.push_back(n);
  }
  if (rest.size() == t.labels.size()) return t;
  return {detail::reshape_exact(t.x, Shape(lengths)), rest};
}

// Chooses and multiplies pairs of terms.
class Contraction {
 public:
  Contraction(std::vector<Term> terms, const Subscripts& subscripts)
      : terms_(std::move(terms)), subscripts_(subscripts) {}

  // False if each pair has a result of too many axes.
  bool multiply_best() {
    std::optional<Pair> best;
    for (const bool sharing : {true, false}) {
      for (size_t i = 0; i < terms_.size(); ++i)
        for (size_t j = i + 1; j < terms_.size(); ++j) consider(i, j, sharing, best);
      if (best) break;
    }
    if (!best) return false;
    Term product = detail::contract(terms_[best->i], terms_[best->j], kept(best->i, best->j));
    terms_.erase(terms_.begin() + static_cast<int>(best->j));
    terms_.erase(terms_.begin() + static_cast<int>(best->i));
    terms_.push_back(std::move(product));
    return true;
  }
  // The sum of each term over the labels that no other term and no result has.
  void sum_alone() {
    for (size_t i = 0; i < terms_.size(); ++i) terms_[i] = detail::summed(terms_[i], kept(i, i));
  }
  const std::vector<Term>& terms() const { return terms_; }

 private:
  struct Pair {
    size_t i, j;
    double removed, cost;
  };

  // The labels of terms i and j that the result or another term has. Those of the result come
  // first, in its order.
  Labels kept(size_t i, size_t j) const {
    Labels all;
    for (int label : subscripts_.result())
      if (has(terms_[i].labels, label) || has(terms_[j].labels, label)) all.push_back(label);
    for (size_t of : {i, j})
      for (int label : terms_[of].labels)
        for (size_t k = 0; k < terms_.size(); ++k)
          if (k != i && k != j && !has(all, label) && has(terms_[k].labels, label))
            all.push_back(label);
    return all;
  }
  double size_of(const Labels& labels) const {
    double size = 1;
    for (int label : labels) size *= static_cast<double>(subscripts_.length(label));
    return size;
  }
  // As NumPy's greedy order: the pair that removes most elements, then the one of least cost.
  void consider(size_t i, size_t j, bool sharing, std::optional<Pair>& best) const {
    const Labels &a = terms_[i].labels, &b = terms_[j].labels, left = kept(i, j);
    if (left.size() > static_cast<size_t>(kMaxRank)) return;
    Labels all = a;
    for (int label : b)
      if (!has(all, label)) all.push_back(label);
    if (sharing && all.size() == a.size() + b.size()) return;
    const double cost = size_of(all) * (all.size() > left.size() ? 2 : 1);
    const Pair pair{i, j, size_of(a) + size_of(b) - size_of(left), cost};
    if (!best || pair.removed > best->removed ||
        (pair.removed == best->removed && pair.cost < best->cost))
      best = pair;
  }

  std::vector<Term> terms_;
  const Subscripts& subscripts_;
};

void check_operands(const Tensors& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    detail::expect_tensor("einsum", operands[i], "operand ", i);
    detail::expect_together("einsum", "operands[0]", operands[0], text_of("operands[", i, "]"),
                            operands[i]);
  }
}

}  // namespace

Tensor einsum(std::string_view text, const Tensors& operands, Caller from) try {
  const UserLine user_line(from);
  check_operands(operands);
  const Subscripts subscripts(text, operands);
  DType d = operands[0].dtype();
  for (const Tensor& x : operands) d = promote(d, x.dtype());
  std::vector<Term> terms;
  for (size_t i = 0; i < operands.size(); ++i)
    terms.push_back(term_of(detail::as(operands[i], d), subscripts.operands()[i], subscripts));
  Contraction all(std::move(terms), subscripts);
  all.sum_alone();
  while (all.terms().size() > 1)
    if (!all.multiply_best())
      throw ShapeError("einsum: subscripts \"", text, "\": the product of any two operands has ",
                       "more than ", kMaxRank, " axes; expected fewer letters; multiply some ",
                       "operands first");
  const Tensor y = detail::arranged(all.terms()[0], subscripts.result());
  return y.is(operands[0]) ? detail::reshape_exact(y, y.shape()) : y;  // a tensor of its own
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
