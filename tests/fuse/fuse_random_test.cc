// Random functions, fused and not: results and gradients have the same bits.
#include <cmath>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/core/autograd.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/draws.h"
#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::Draws, test::expect_same, test::seeds;

// A function of tensors: each step is an op on earlier values.
class RandomFunction {
 public:
  RandomFunction(Draws& draw, int inputs, bool smooth) : inputs_(inputs), smooth_(smooth) {
    const int steps = 1 + draw.below(12);
    for (int i = 0; i < steps; ++i) {
      const int known = inputs + i;
      // Late values more often, so that chains are long.
      const auto pick = [&] { return draw.one_in(2) ? known - 1 : draw.below(known); };
      steps_.push_back({draw.below(kOps), pick(), pick(), pick(), draw.real()});
    }
    const int results = 1 + draw.below(3);
    for (int i = 0; i < results; ++i)
      results_.push_back(inputs + (i == 0 ? steps - 1 : draw.below(steps)));
  }

  Tensors operator()(const Tensors& in) const {
    Tensors all = in;
    for (const Step& s : steps_) all.push_back(apply(s, all));
    Tensors results;
    for (const int r : results_) results.push_back(all[static_cast<size_t>(r)]);
    return results;
  }

  std::string text() const {
    std::ostringstream text;
    for (size_t i = 0; i < steps_.size(); ++i)
      text << "v" << static_cast<size_t>(inputs_) + i << " = op" << steps_[i].op << "(v"
           << steps_[i].a << ", v" << steps_[i].b << ", v" << steps_[i].c << ", "
           << steps_[i].number << ")\n";
    for (const int r : results_) text << "result v" << r << '\n';
    return text.str();
  }

 private:
  struct Step {
    int op, a, b, c;
    float number;
  };
  static constexpr int kOps = 26;

  Tensor apply(const Step& s, const Tensors& all) const {
    const auto at = [&](int i) -> const Tensor& { return all[static_cast<size_t>(i)]; };
    const Tensor &a = at(s.a), &b = at(s.b), &c = at(s.c);
    const auto number = [&](const Tensor& t) { return t.dtype() == bool_ ? t.astype(i8) : t; };
    switch (s.op) {
      case 0:
        return a + b;
      case 1:
        return number(a) - b;
      case 2:
        return a * b;
      case 3:
        return a / b;
      case 4:
        return maximum(a, b);
      case 5:
        return minimum(a, s.number);
      case 6:
        return where(a > b, b, c);
      case 7:
        return tanh(a);
      case 8:
        return exp(minimum(number(a), 3));
      case 9:
        return sigmoid(a);
      case 10:
        return number(a) * s.number;
      case 11:
        return s.number - number(a);
      case 12:
        return number(a) + static_cast<int>(std::abs(s.number));
      case 13:
        return abs(a);
      case 14:
        return smooth_ ? sin(a) : floor(a);
      case 15:
        return relu(a.dtype() == f64 || a.dtype() == f32 ? a : a.astype(f32));
      case 16:
        return smooth_ ? a * 2 : a.astype(f16);
      case 17:
        return smooth_ ? square(a) : a.astype(i32);
      case 18:
        return clip(number(a), -2, 1.5);
      case 19:
        return smooth_ ? a + b * c : (a == b) + c;
      case 20:
        return smooth_ ? softplus(a) : logical_or(a, b);
      case 21:
        return smooth_ ? gelu(a) : number(a) % 3;
      case 22:
        return leaky_relu(a.astype(f32), .3);
      case 23: {
        if (smooth_) return cos(a);
        Tensor t = number(a) + 0;
        t *= 2;
        t += 1;
        return t;
      }
      case 24:
        return a.ndim() == 2 && a.shape()[0] == a.shape()[1] ? a.T() : negative(number(a));
      default:
        return b.ndim() > 0 && b.shape()[0] > 1 ? a + zeros_like(b) : number(b) - 1;
    }
  }

  const int inputs_;
  const bool smooth_;
  std::vector<Step> steps_;
  std::vector<int> results_;
};

// Several random functions of the same arguments: one kernel compiles faster than several.
class RandomFunctions {
 public:
  RandomFunctions(Draws& draw, int inputs, bool smooth) {
    for (int i = 0; i < kTogether; ++i) all_.emplace_back(draw, inputs, smooth);
  }
  Tensors operator()(const Tensors& in) const {
    Tensors results;
    for (const RandomFunction& f : all_)
      for (const Tensor& t : f(in)) results.push_back(t);
    return results;
  }
  std::string text() const {
    std::string all;
    for (const RandomFunction& f : all_) all += f.text();
    return all;
  }

  static constexpr int kTogether = 6;

 private:
  std::vector<RandomFunction> all_;
};

// Row-major, transposed or with gaps; broadcast along some axes.
Tensor draw_tensor(Draws& draw, const Shape& shape, DType d, Context c) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  for (int64_t& n : dims)
    if (draw.one_in(5)) n = 1;
  if (draw.one_in(8) && !dims.empty()) dims.erase(dims.begin());
  const int kind = draw.below(3);
  if (kind == 1 && !dims.empty()) std::swap(dims.front(), dims.back());
  if (kind == 2 && !dims.empty()) dims.back() = dims.back() * 2 + 1;
  const Shape made{std::span<const int64_t>(dims)};
  std::vector<float> data(static_cast<size_t>(made.size()));
  for (float& v : data) v = draw.one_in(30) ? 0 : draw.real();
  const Tensor x = array(data, made).astype(d).as_in_context(c);
  if (kind == 2 && !dims.empty()) return x(ellipsis, Slice(1, std::nullopt, 2));
  if (kind != 1 || dims.size() < 2) return x;
  std::vector<int> axes(dims.size());
  for (size_t a = 0; a < axes.size(); ++a) axes[a] = static_cast<int>(a);
  std::swap(axes.front(), axes.back());
  return x.transpose(axes);
}

Shape draw_shape(Draws& draw) {
  const int64_t square = 2 + draw.below(4);
  const Shape shapes[] = {{5, 7}, {square, square}, {3, 2, 4}, {600}, {1}, {2, 1, 3, 2}};
  return shapes[draw.below(6)];
}

TEST(FuseRandom, ResultsAreThoseOfThePlainFunction) {
  const auto [first, count] = seeds(30);
  unsigned fused = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Draws draw(seed);
    const std::vector<Context> contexts = test::kernel_contexts();
    const Context c = contexts[seed % contexts.size()];
    constexpr DType kTypes[] = {f32, f64, f16, bf16, i32, i64, u8, i8, bool_};
    const Shape shape = draw_shape(draw);
    Tensors in;
    const int inputs = 1 + draw.below(4);
    for (int i = 0; i < inputs; ++i)
      in.push_back(draw_tensor(draw, shape, kTypes[draw.one_in(3) ? draw.below(9) : 0], c));
    const RandomFunctions plain(draw, inputs, false);
    const Fused f = fuse([&](const Tensors& all) { return plain(all); }, "random_function");
    const Tensors wanted = plain(in), got = f(in);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i]);
    fused += f.stats().kernels > 0;
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << '\n'
                                              << plain.text() << f.describe();
  }
  EXPECT_GE(fused, count * 9 / 10);
}

TEST(FuseRandom, GradientsAreThoseOfThePlainFunction) {
  const auto [first, count] = seeds(15);
  unsigned fused = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Draws draw(seed + 1000000);
    const std::vector<Context> contexts = test::kernel_contexts();
    const Context c = contexts[seed % contexts.size()];
    const DType d = draw.one_in(3) ? f16 : draw.one_in(3) ? f64 : f32;
    const Shape shape = draw_shape(draw);
    Tensors in;
    const int inputs = 1 + draw.below(3);
    for (int i = 0; i < inputs; ++i) in.push_back(draw_tensor(draw, shape, d, c));
    const RandomFunctions plain(draw, inputs, true);
    const Fused f = fuse([&](const Tensors& all) { return plain(all); }, "random_function");
    const Tensors wanted = test::gradients_of(plain, in), got = test::gradients_of(f, in);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i]);
    fused += f.describe().find("gradient: ") != std::string::npos;
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << '\n'
                                              << plain.text() << f.describe();
  }
  EXPECT_GE(fused, count * 8 / 10);
}

}  // namespace
}  // namespace locus
