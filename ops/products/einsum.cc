#include <locus/ops/einsum.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/products/contract.h>
#include <locus/ops/products/operands.h>
#include <locus/ops/products/subscripts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using detail::Labels, detail::Subscripts, detail::Term, detail::contains;

// Replaces two axes of one label by their diagonal, which becomes the last axis. Returns false if
// the labels are distinct.
bool take_diagonal(Term& t) {
  for (int j = 1; j < t.x.ndim(); ++j)
    for (int i = 0; i < j; ++i) {
      const int label = t.labels[static_cast<size_t>(i)];
      if (t.labels[static_cast<size_t>(j)] != label) continue;
      t.x = diagonal(t.x, 0, i, j);
      t.labels.erase(t.labels.begin() + j);
      t.labels.erase(t.labels.begin() + i);
      t.labels.push_back(label);
      return true;
    }
  return false;
}

// An operand with distinct labels, without the axes of length 1 that are repeated or summed. A
// single operand keeps these axes: their sum makes the result a new tensor.
Term make_term(Tensor x, const Labels& labels, const Subscripts& subscripts) {
  Term t{std::move(x), labels};
  while (take_diagonal(t)) {
  }
  if (subscripts.operands().size() == 1) return t;
  Labels rest;
  std::vector<int64_t> lengths;
  for (int i = 0; i < t.x.ndim(); ++i) {
    const int label = t.labels[static_cast<size_t>(i)];
    const int64_t n = t.x.shape()[i];
    if (n == 1 && (subscripts.length(label) != 1 || !contains(subscripts.result(), label)))
      continue;
    rest.push_back(label);
    lengths.push_back(n);
  }
  if (rest.size() == t.labels.size()) return t;
  return {detail::reshape_exact(t.x, Shape(lengths)), rest};
}

// The terms of a call. Pairs are replaced by their products until one term is left.
class Contraction {
 public:
  Contraction(std::vector<Term> terms, const Subscripts& subscripts)
      : terms_(std::move(terms)), subscripts_(subscripts) {}

  const std::vector<Term>& terms() const { return terms_; }

  // Sums each term over the labels that neither another term nor the result has.
  void sum_unshared_labels() {
    for (size_t i = 0; i < terms_.size(); ++i)
      terms_[i] = detail::sum_except(terms_[i], kept_labels(i, i));
  }
  // Multiplies the best pair of terms that share a label, or else of any terms. Returns false if
  // each product would have too many axes.
  bool multiply_pair() {
    std::optional<Pair> best = best_pair(true);
    if (!best) best = best_pair(false);
    if (!best) return false;
    const auto [i, j] = std::pair(best->i, best->j);
    Term product = detail::contract(terms_[i], terms_[j], kept_labels(i, j));
    terms_.erase(terms_.begin() + static_cast<int>(j));
    terms_.erase(terms_.begin() + static_cast<int>(i));
    terms_.push_back(std::move(product));
    return true;
  }

 private:
  struct Pair {
    size_t i, j;
    double removed, cost;  // elements that the product saves; multiplications and additions
  };

  // The labels of terms i and j that the result or a third term has. The result's labels come
  // first, in its order.
  Labels kept_labels(size_t i, size_t j) const {
    Labels kept;
    for (int label : subscripts_.result())
      if (contains(terms_[i].labels, label) || contains(terms_[j].labels, label))
        kept.push_back(label);
    for (size_t of : {i, j})
      for (int label : terms_[of].labels)
        for (size_t k = 0; k < terms_.size(); ++k)
          if (k != i && k != j && !contains(kept, label) && contains(terms_[k].labels, label))
            kept.push_back(label);
    return kept;
  }
  double count_elements(const Labels& labels) const {
    double size = 1;
    for (int label : labels) size *= static_cast<double>(subscripts_.length(label));
    return size;
  }
  // NumPy's greedy order: the pair that removes most elements. Of equal pairs, the cheapest.
  std::optional<Pair> best_pair(bool sharing) const {
    std::optional<Pair> best;
    for (size_t i = 0; i < terms_.size(); ++i)
      for (size_t j = i + 1; j < terms_.size(); ++j) {
        const Labels &a = terms_[i].labels, &b = terms_[j].labels;
        Labels all = a;
        for (int label : b)
          if (!contains(all, label)) all.push_back(label);
        if (sharing && all.size() == a.size() + b.size()) continue;
        const Labels kept = kept_labels(i, j);
        if (kept.size() > static_cast<size_t>(kMaxRank)) continue;
        const double removed = count_elements(a) + count_elements(b) - count_elements(kept);
        const double cost = count_elements(all) * (all.size() > kept.size() ? 2 : 1);
        if (!best || removed > best->removed || (removed == best->removed && cost < best->cost))
          best = {i, j, removed, cost};
      }
    return best;
  }

  std::vector<Term> terms_;
  const Subscripts& subscripts_;
};

}  // namespace

Tensor einsum(std::string_view text, const Tensors& operands, Caller from) try {
  const UserLine user_line(from);
  detail::check_operands("einsum", operands, "operand", "operands");
  const Subscripts subscripts(text, operands);
  Tensors promoted = detail::promote_all(operands);
  std::vector<Term> terms;
  for (size_t i = 0; i < promoted.size(); ++i)
    terms.push_back(make_term(std::move(promoted[i]), subscripts.operands()[i], subscripts));
  Contraction contraction(std::move(terms), subscripts);
  contraction.sum_unshared_labels();
  while (contraction.terms().size() > 1)
    if (!contraction.multiply_pair())
      throw ShapeError("einsum: subscripts \"", text, "\": the product of any two operands has ",
                       "more than ", kMaxRank, " axes; expected fewer letters; multiply some ",
                       "operands first");
  const Tensor y = detail::permute(contraction.terms()[0], subscripts.result());
  return y.is(operands[0]) ? detail::reshape_exact(y, y.shape()) : y;  // a view, not the operand
} catch (const Error&) {
  detail::rethrow_as("einsum", from);
}

}  // namespace locus
