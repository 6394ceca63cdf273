// Random functions that reduce, fused and not. What no sum of floating elements passes through has
// the same bits. The rest differs by less than small changes of the sums make.
#include <cmath>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <locus/core/autograd.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/draws.h"
#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::Draws, test::seeds;

// A value, and whether a sum of floating elements has gone into it.
struct Rounded {
  Tensor t;
  bool rounded = false;
};

// Each step is an op on earlier values. Rounded values go through continuous ops only.
class RandomFunction {
 public:
  RandomFunction(Draws& draw, int inputs, bool smooth) : smooth_(smooth) {
    const int steps = 2 + draw.below(10);
    for (int i = 0; i < steps; ++i) {
      const int known = inputs + i;
      const auto pick = [&] { return draw.one_in(2) ? known - 1 : draw.below(known); };
      steps_.push_back({draw.below(20), pick(), pick(), draw.below(1 << 20), draw.real()});
    }
    const int results = 1 + draw.below(3);
    for (int i = 0; i < results; ++i)
      results_.push_back(inputs + (i == 0 ? steps - 1 : draw.below(steps)));
  }

  // `change`: how much sums are changed, relative to what they sum.
  std::vector<Rounded> run(const Tensors& in, double change = 0) const {
    std::vector<Rounded> all, results;
    for (const Tensor& t : in) all.push_back({t, smooth_});
    for (const Step& s : steps_) {
      Rounded r = apply(s, all, change);
      if (r.rounded && change != 0) r.t = r.t * (1 + change);
      all.push_back(std::move(r));
    }
    for (const int k : results_) {
      Rounded r = all[static_cast<size_t>(k)];
      for (const Tensor& t : in)  // no view of an argument: the function would not be fused
        if (r.t.shares_memory_with(t)) r.t = r.t * 1;
      results.push_back(std::move(r));
    }
    return results;
  }
  std::string text() const {
    std::ostringstream text;
    for (const Step& s : steps_)
      text << "op" << s.op << "(v" << s.a << ", v" << s.b << ", " << s.bits << ", " << s.number
           << ")\n";
    for (const int r : results_) text << "result v" << r << '\n';
    return text.str();
  }

 private:
  struct Step {
    int op, a, b, bits;
    float number;
  };

  static Tensor number(const Tensor& t) { return t.dtype() == bool_ ? t.astype(i8) : t; }
  static bool fit(const Tensor& a, const Tensor& b) {
    const Shape x = a.shape(), y = b.shape();
    for (int i = 1; i <= std::min(a.ndim(), b.ndim()); ++i) {
      const auto n = x[a.ndim() - i], m = y[b.ndim() - i];
      if (n != m && n != 1 && m != 1) return false;
    }
    return true;
  }
  // b, or what of it can be combined with a.
  static Tensor fitted(const Tensor& a, const Tensor& b) {
    if (fit(a, b)) return b;
    if (b.ndim() < a.ndim()) {  // a result of rows: its axes come first
      std::vector<int64_t> dims;
      for (int i = 0; i < a.ndim(); ++i) dims.push_back(i < b.ndim() ? b.shape()[i] : 1);
      const Tensor kept = b.reshape(Shape{std::span<const int64_t>(dims)});
      if (fit(a, kept)) return kept;
    }
    return max(b);
  }

  Tensor reduced(const Step& s, const Tensor& x, bool& sums) const {
    Axes axes;
    const int n = x.ndim(), which = s.bits % 8;
    if (n > 0 && which < 4) axes = n - 1;
    if (n > 1 && which == 4) axes = {n - 2, n - 1};
    if (n > 0 && which == 5) axes = 0;
    if (n > 2 && which == 6) axes = {0, 2};
    if (which == 7 && s.bits % 3 == 0) axes = std::initializer_list<int>{};
    const ReduceOptions o{.axis = axes, .keepdims = s.bits / 8 % 2 == 0};
    const bool exact = !is_floating(x.dtype());
    sums = !exact;
    switch (s.bits / 16 % 10) {
      case 0:
      case 1:
        return x.size() > 300 || smooth_ ? mean(x, o) : sum(x, o);
      case 2:
        sums = true;
        return mean(x, o);
      case 3:
        if (smooth_ && x.size() > 300) return mean(x, o);
        return prod(exact || x.size() > 300 ? number(x) > 0 : clip(x, -1.1, 1.1), o);
      case 4:
        sums = true;
        return logsumexp(x, o);
      case 5:
        sums = true;
        return norm(smooth_ ? x + 4 : x, {.axis = o.axis, .keepdims = o.keepdims});
      case 6:
        sums = false;
        return smooth_ ? sum(x, o) * .1 : any(x, o);
      case 7:
        sums = false;
        return smooth_ ? mean(x * x, o) : all(x, o);
      case 8:
        sums = false;
        return min(x, o);
      default:
        sums = false;
        return max(x, o);
    }
  }

  Rounded apply(const Step& s, const std::vector<Rounded>& all, double change) const {
    const Rounded &u = all[static_cast<size_t>(s.a)], &v = all[static_cast<size_t>(s.b)];
    const Tensor &a = u.t, b = fitted(a, v.t);
    const bool one = u.rounded, two = one || v.rounded;
    const Tensor x = number(a);
    switch (s.op) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: {
        bool sums = false;
        // A discontinuous reduction of rounded values is none.
        if (one && !smooth_ && (s.bits / 16 % 10 == 6 || s.bits / 16 % 10 == 7))
          return {a * 1, one};
        const Tensor r = reduced(s, a, sums);
        if (change != 0 && sums && is_floating(r.dtype()) && !smooth_)
          return {r * (1 + change), true};
        return {r, one || sums};
      }
      case 6:
        return {a + b, two};
      case 7:
        return {x - b, two};
      case 8:
        return {clip(x, -8, 8) * clip(number(b), -8, 8), two};
      case 9:
        return {x / (abs(number(b)) + 1), two};
      case 10:
        return {maximum(a, b), two};
      case 11:
        return {tanh(x), one};
      case 12:
        return {exp(minimum(x, 2)), one};
      case 13:
        return {x * s.number, one};
      case 14:
        return {two ? a * 2 : where(a > b, b, a), two};
      case 15: {
        constexpr DType kTypes[] = {f32, f64, f16, bf16, i32, i64, u8, i8, bool_};
        const int floats = one || smooth_ ? 2 : 9;
        if (one && a.dtype() != f32 && a.dtype() != f64) return {a * 1, one};
        return {clip(x, 0, 100).astype(kTypes[s.bits % floats]), one};
      }
      case 16:
        return {a.ndim() >= 2 && s.bits % 2 ? a.T() : a.reshape({-1}), one};
      case 17:
        return {a.ndim() >= 1 && a.shape()[0] > 1
                    ? a(Slice(s.bits % 2 ? -1 : 0, std::nullopt, s.bits % 2 ? -1 : 1))
                    : a + 0,
                one};
      case 18:
        return {one ? sin(x) : floor(x), one};
      default:
        return {one ? relu(x) : (a == b) + s.number, two};
    }
  }

  const bool smooth_;
  std::vector<Step> steps_;
  std::vector<int> results_;
};

class RandomFunctions {
 public:
  RandomFunctions(Draws& draw, int inputs, bool smooth) {
    for (int i = 0; i < kTogether; ++i) all_.emplace_back(draw, inputs, smooth);
  }
  std::vector<Rounded> run(const Tensors& in, double change = 0) const {
    std::vector<Rounded> results;
    for (const RandomFunction& f : all_)
      for (Rounded& r : f.run(in, change)) results.push_back(std::move(r));
    return results;
  }
  Tensors operator()(const Tensors& in, double change = 0) const {
    Tensors results;
    for (Rounded& r : run(in, change)) results.push_back(std::move(r.t));
    return results;
  }
  std::string text() const {
    std::string all;
    for (const RandomFunction& f : all_) all += f.text();
    return all;
  }
  static constexpr int kTogether = 4;

 private:
  std::vector<RandomFunction> all_;
};

Tensor draw_tensor(Draws& draw, const Shape& shape, DType d, Context c, bool special) {
  std::vector<int64_t> dims(shape.begin(), shape.end());
  for (int64_t& n : dims)
    if (draw.one_in(6)) n = 1;
  if (draw.one_in(8) && !dims.empty()) dims.erase(dims.begin());
  const int kind = draw.below(4);
  if (kind == 1 && !dims.empty()) std::swap(dims.front(), dims.back());
  if (kind == 2 && !dims.empty()) dims.back() = dims.back() * 2 + 1;
  const Shape made{std::span<const int64_t>(dims)};
  std::vector<float> data(static_cast<size_t>(made.size()));
  for (float& v : data) {
    v = draw.one_in(30) ? (draw.one_in(2) ? 0.f : -0.f) : draw.real();
    if (special && draw.one_in(20))
      v = draw.one_in(2) ? NAN : draw.one_in(2) ? INFINITY : -INFINITY;
  }
  const Tensor x = array(data, made).astype(d).as_in_context(c);
  if (kind == 2 && !dims.empty()) return x(ellipsis, Slice(1, std::nullopt, 2));
  if (kind == 3 && !dims.empty()) return flip(x, draw.below(static_cast<int>(dims.size())));
  if (kind != 1 || dims.size() < 2) return x;
  std::vector<int> axes(dims.size());
  for (size_t a = 0; a < axes.size(); ++a) axes[a] = static_cast<int>(a);
  std::swap(axes.front(), axes.back());
  return x.transpose(axes);
}

Shape draw_shape(Draws& draw) {
  const int64_t square = 2 + draw.below(4);
  const Shape shapes[] = {{5, 7},    {square, square}, {3, 2, 4}, {600},
                          {1},       {2, 1, 3, 2},     {4, 130},  {},
                          {2, 5000}, {4, 1},           {2, 3, 2}, {2, 9000}};
  return draw.one_in(40) ? Shape{1, 70000} : shapes[draw.below(12)];
}

double unit_of(const Tensors& in) {
  bool half = false, wide = true;
  for (const Tensor& t : in) {
    half = half || t.dtype() == f16 || t.dtype() == bf16;
    wide = wide && t.dtype() == f64;
  }
  return half ? 0x1p-7 : wide ? 0x1p-22 : 0x1p-21;
}

// `near`: the results for changed sums.
void expect_near(const Tensor& got, const Tensor& wanted, const std::vector<Tensors>& near,
                 size_t i, double unit) {
  ASSERT_EQ(got.defined(), wanted.defined());
  if (!got.defined()) return;
  ASSERT_EQ(describe(got), describe(wanted));
  EXPECT_EQ(got.strides(), wanted.strides());
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  std::vector<std::vector<double>> others;
  for (const Tensors& n : near) others.push_back(n[i].to_vector<double>());
  double largest = 0;
  for (const double v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k] || (a[k] != a[k] && b[k] != b[k])) continue;
    double reach = 4 * unit * (std::abs(b[k]) + largest);
    for (const auto& o : others) reach += 8 * std::abs(o[k] - b[k]);
    ASSERT_LE(std::abs(a[k] - b[k]), reach)
        << "element " << k << " is " << a[k] << ", expected " << b[k];
  }
}

TEST(FuseRandomRows, ResultsAreThoseOfThePlainFunction) {
  const auto [first, count] = seeds(5);
  unsigned fused = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Draws draw(seed);
    const std::vector<Context> contexts = test::contexts();
    const Context c = contexts[seed % contexts.size()];
    constexpr DType kTypes[] = {f32, f64, f16, bf16, i32, i64, u8, i8, bool_};
    const Shape shape = draw_shape(draw);
    const bool special = draw.one_in(5);
    Tensors in;
    const int inputs = 1 + draw.below(3);
    for (int i = 0; i < inputs; ++i)
      in.push_back(draw_tensor(
          draw, shape, kTypes[draw.one_in(3) ? draw.below(special ? 4 : 9) : 0], c, special));
    const RandomFunctions plain(draw, inputs, false);
    const Fused f = fuse([&](const Tensors& all) { return plain(all); }, "random_rows");
    const Tensors got = f(in);
    const std::vector<Rounded> wanted = plain.run(in);
    const double unit = unit_of(in);
    const std::vector<Tensors> near = {plain(in, unit), plain(in, -unit)};
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (wanted[i].rounded)
        expect_near(got[i], wanted[i].t, near, i, unit);
      else
        test::expect_same(got[i], wanted[i].t);
      ASSERT_FALSE(testing::Test::HasFailure())
          << "seed " << seed << " result " << i << (wanted[i].rounded ? " rounded " : " exact ")
          << wanted[i].t.shape() << '\n'
          << plain.text() << f.describe();
    }
    fused += f.stats().kernels > 0;
  }
  EXPECT_GE(fused, count / 2);
}

TEST(FuseRandomRows, GradientsAreThoseOfThePlainFunction) {
  const auto [first, count] = seeds(5);
  unsigned fused = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Draws draw(seed + 1000000);
    const std::vector<Context> contexts = test::contexts();
    const Context c = contexts[seed % contexts.size()];
    const DType d = draw.one_in(3) ? f16 : draw.one_in(3) ? f64 : f32;
    const Shape shape = draw_shape(draw);
    Tensors in;
    const int inputs = 1 + draw.below(3);
    for (int i = 0; i < inputs; ++i) in.push_back(draw_tensor(draw, shape, d, c, false));
    const RandomFunction plain(draw, inputs, true);
    const auto call = [&](const Tensors& all, double change) {
      Tensors results;
      for (Rounded& r : plain.run(all, change)) results.push_back(std::move(r.t));
      return results;
    };
    const Fused f = fuse([&](const Tensors& all) { return call(all, 0); }, "random_rows");
    const double unit = unit_of(in);
    const auto changed = [&](double by) {
      return test::gradients_of([&](const Tensors& all) { return call(all, by); }, in);
    };
    const Tensors wanted = changed(0), got = test::gradients_of(f, in);
    const std::vector<Tensors> near = {changed(unit), changed(-unit)};
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      expect_near(got[i], wanted[i], near, i, unit);
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << " input " << i << '\n'
                                                << plain.text() << f.describe();
    }
    fused += f.describe().find("gradient: ") != std::string::npos;
  }
  EXPECT_GE(fused, count / 4);
}

}  // namespace
}  // namespace locus
