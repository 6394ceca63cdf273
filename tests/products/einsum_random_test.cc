// einsum of random subscripts, shapes and strides, compared with a loop over all indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <locus/ops/einsum.h>
#include <locus/ops/view.h>
#include "tests/products/numbers.h"

namespace locus::test {
namespace {

// A label for each axis: a letter, or for the axes of an ellipsis a digit, counted from the right.
using Labels = std::string;

struct Operand {
  Labels labels;
  Tensor base;
  std::vector<int> axes;  // the operand is a view of the base: its permuted axes, and
  bool flipped;           // whether the first of these is reversed

  Tensor view(const Tensor& x) const {
    const Tensor y = transpose(x, std::span<const int>(axes));
    return flipped ? flip(y, 0) : y;
  }
};

struct RandomCall {
  std::string subscripts;
  std::vector<Operand> operands;
  Labels result;
  std::map<char, int64_t> lengths;

  Tensors bases() const {
    Tensors all;
    for (const Operand& one : operands) all.push_back(one.base);
    return all;
  }
  Tensor run(const Tensors& x) const {
    Tensors views;
    for (size_t i = 0; i < x.size(); ++i) views.push_back(operands[i].view(x[i]));
    return einsum(subscripts, views);
  }
  std::vector<int64_t> result_lengths() const {
    std::vector<int64_t> all;
    for (char label : result) all.push_back(lengths.at(label));
    return all;
  }
};

// Random calls, the same on every platform.
class Generator {
 public:
  RandomCall make_call(Context c) {
    RandomCall call;
    std::map<char, int64_t> full;
    for (char label : kLetters + "01") full[label] = std::vector{0, 1, 2, 2, 2, 2, 3, 3}[below(8)];
    size_t dots = 0;  // the most axes of an ellipsis
    for (size_t i = 0, n = below(4) + 1; i < n; ++i) {
      Labels labels;
      for (size_t letters = below(4); letters > 0; --letters)
        labels += kLetters[below(kLetters.size())];
      const size_t own_dots = below(3) == 0 ? below(3) : 0;
      dots = std::max(dots, own_dots);
      call.subscripts += (i > 0 ? "," : "") + add_ellipsis(labels, own_dots, below(2) == 0);
      call.operands.push_back(make_operand(labels, full, c, i));
    }
    find_lengths(call);
    if (below(3) == 0)
      make_implicit_result(call, dots);
    else
      make_explicit_result(call, dots);
    if (below(4) == 0) call.subscripts = " " + call.subscripts + " ";
    return call;
  }

 private:
  const std::string kLetters = "acxBZ";

  size_t below(size_t n) { return random_() % n; }

  // Inserts the labels of an ellipsis at a random position. Returns the term. An ellipsis of no
  // axes may be left out.
  std::string add_ellipsis(Labels& labels, size_t dots, bool may_omit) {
    if (dots == 0 && may_omit) return labels;
    const size_t position = below(labels.size() + 1);
    std::string term = labels;
    term.insert(position, "...");
    for (size_t i = 0; i < dots; ++i) labels.insert(position, 1, static_cast<char>('0' + i));
    return term;
  }

  Operand make_operand(const Labels& labels, const std::map<char, int64_t>& full, Context c,
                       size_t variant) {
    std::map<char, int64_t> lengths = full;
    for (auto& [label, length] : lengths)
      if (below(8) == 0) length = 1;
    const size_t rank = labels.size();
    Operand one{labels, {}, std::vector<int>(rank), rank > 0 && below(4) == 0};
    for (size_t i = 0; i < rank; ++i) one.axes[i] = static_cast<int>(i);
    for (size_t i = rank; i > 1; --i) std::swap(one.axes[i - 1], one.axes[below(i)]);
    std::vector<int64_t> shape(rank);
    for (size_t i = 0; i < rank; ++i) shape[static_cast<size_t>(one.axes[i])] = lengths[labels[i]];
    one.base = numbers(Shape(shape), c, f64, static_cast<int>(variant));
    return one;
  }

  // The length of each label: 1 only if all its axes have length 1.
  static void find_lengths(RandomCall& call) {
    for (const Operand& one : call.operands) {
      const Shape shape = one.view(one.base).shape();
      for (size_t i = 0; i < one.labels.size(); ++i) {
        const int64_t length = shape[static_cast<int>(i)];
        const auto known = call.lengths.try_emplace(one.labels[i], length).first;
        if (known->second == 1) known->second = length;
      }
    }
  }

  static void make_implicit_result(RandomCall& call, size_t dots) {
    std::map<char, int> counts;
    for (const Operand& one : call.operands)
      for (char label : one.labels) ++counts[label];
    for (size_t i = dots; i-- > 0;) call.result += static_cast<char>('0' + i);
    for (const auto& [label, count] : counts)
      if (count == 1 && label >= 'A') call.result += label;
  }
  void make_explicit_result(RandomCall& call, size_t dots) {
    for (const auto& [label, length] : call.lengths)
      if (label >= 'A' && below(2) == 0)
        call.result.insert(below(call.result.size() + 1), 1, label);
    call.subscripts += "->" + add_ellipsis(call.result, dots, true);
  }

  std::mt19937 random_;  // of the standard's fixed seed
};

// Calls f(position) for each combination of the labels' indices. position(labels, shape) is the
// row-major position of a tensor's element with these indices. Axes of length 1 have index 0.
void for_each_index(const RandomCall& call, const auto& f) {
  std::map<char, int64_t> index;
  int64_t combinations = 1;
  for (const auto& [label, length] : call.lengths) combinations *= length;
  for (int64_t n = 0; n < combinations; ++n) {
    int64_t rest = n;
    for (const auto& [label, length] : call.lengths) {
      index[label] = rest % length;
      rest /= length;
    }
    f([&](const Labels& labels, const Shape& shape) {
      int64_t position = 0;
      for (size_t i = 0; i < labels.size(); ++i) {
        const int64_t length = shape[static_cast<int>(i)];
        position = position * length + (length == 1 ? 0 : index[labels[i]]);
      }
      return static_cast<size_t>(position);
    });
  }
}

struct Reference {
  std::vector<double> result;
  std::vector<std::vector<double>> gradients;  // of each operand, of sum(head * result)
};
Reference compute_reference(const RandomCall& call, const std::vector<double>& head) {
  const Shape shape(call.result_lengths());
  Reference r{std::vector<double>(static_cast<size_t>(shape.size())), {}};
  std::vector<std::vector<double>> x;
  std::vector<Shape> shapes;
  for (const Operand& one : call.operands) {
    x.push_back(values(one.view(one.base)));
    shapes.push_back(one.view(one.base).shape());
    r.gradients.emplace_back(x.back().size());
  }
  for_each_index(call, [&](const auto& position) {
    const size_t to = position(call.result, shape);
    std::vector<size_t> from;
    for (size_t i = 0; i < x.size(); ++i)
      from.push_back(position(call.operands[i].labels, shapes[i]));
    const auto multiply_except = [&](size_t skipped) {
      double product = 1;
      for (size_t i = 0; i < x.size(); ++i)
        if (i != skipped) product *= x[i][from[i]];
      return product;
    };
    r.result[to] += multiply_except(x.size());
    for (size_t i = 0; i < x.size(); ++i) r.gradients[i][from[i]] += head[to] * multiply_except(i);
  });
  return r;
}

TEST(EinsumRandom, ResultsAndGradientsEqualALoopOverAllIndices) {
  const std::vector<Context> all = end_contexts();
  Generator generator;
  for (size_t n = 0; n < 1000 && !HasFailure(); ++n) {
    const RandomCall call = generator.make_call(all[n % all.size()]);
    std::string trace = "\"" + call.subscripts + "\"";
    for (const Tensor& x : call.bases()) trace += " " + describe(x);
    SCOPED_TRACE(trace);
    const Tensor y = call.run(call.bases());
    ASSERT_EQ(y.shape(), Shape(call.result_lengths()));
    const Reference wanted = compute_reference(call, weights(y.size(), 0));
    EXPECT_EQ(values(y), wanted.result);
    const Tensors got =
        gradients([&](const Tensors& x) { return Tensors{call.run(x)}; }, call.bases());
    for (size_t i = 0; i < got.size(); ++i)
      expect_near(values(call.operands[i].view(got[i])), wanted.gradients[i], 1e-12,
                  "gradient of operand " + std::to_string(i));
  }
}

}  // namespace
}  // namespace locus::test
