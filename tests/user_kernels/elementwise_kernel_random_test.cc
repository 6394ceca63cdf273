// ElementwiseKernel against plain loops: thousands of calls with random dtypes, shapes, layouts,
// broadcasts, numbers and overlaps.
#include <random>

#include <locus/ops/create.h>
#include <locus/ops/kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::kernel_contexts;
using test::values;

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }

  Shape shape() {
    const int rank = below(5);
    int64_t dims[kMaxRank];
    for (int a = 0; a < rank; ++a)
      dims[a] = one_in(40) ? 0 : one_in(4) ? 1 : 1 + below(one_in(10) ? 60 : 7);
    return Shape(dims, rank);
  }
  // A tensor of this shape: row-major, transposed, with gaps, or reversed.
  Tensor tensor(const Shape& s, Context c, DType d) {
    const int kind = below(4);
    std::vector<Index> cut;
    std::vector<int64_t> dims(s.begin(), s.end());
    Tensor x;
    if (kind == 1) {
      std::vector<int> order(dims.size());
      for (size_t a = 0; a < order.size(); ++a) order[a] = static_cast<int>(a);
      std::shuffle(order.begin(), order.end(), engine_);
      std::vector<int64_t> stored(dims.size());
      for (size_t a = 0; a < order.size(); ++a) stored[static_cast<size_t>(order[a])] = dims[a];
      x = filled(stored, c, d).transpose(order);
    } else if (kind == 2 && !dims.empty()) {
      dims.back() = 2 * dims.back() + 1;
      x = filled(dims, c, d)(ellipsis, Slice(1, std::nullopt, 2));
    } else if (kind == 3 && !dims.empty()) {
      x = filled(dims, c, d)(ellipsis, Slice(std::nullopt, std::nullopt, -1));
    } else {
      x = filled(dims, c, d);
    }
    return x;
  }
  // Ones in place of some lengths, and fewer axes.
  Shape narrower(const Shape& s) {
    const int skipped = s.rank() > 0 ? below(s.rank() + 1) * below(2) : 0;
    std::vector<int64_t> dims(s.begin() + skipped, s.end());
    for (int64_t& n : dims)
      if (one_in(4)) n = 1;
    return Shape(std::span<const int64_t>(dims));
  }

 private:
  // Small whole numbers, exact in every dtype.
  Tensor filled(const std::vector<int64_t>& dims, Context c, DType d) {
    const Shape shape{std::span<const int64_t>(dims)};
    std::vector<float> data(static_cast<size_t>(shape.size()));
    for (float& v : data) v = static_cast<float>(below(d == bool_ ? 2 : 6));
    return array(data, shape).astype(d).as_in_context(c);
  }

  std::mt19937 engine_;
};

// The element of x at each position of a loop of this shape, in row-major order.
std::vector<double> broadcast(const Tensor& x, const Shape& to) {
  const std::vector<double> all = values(x);
  std::vector<double> seen(static_cast<size_t>(to.size()));
  for (size_t i = 0; i < seen.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0, stride = 1;
    for (int a = to.rank() - 1, b = x.ndim() - 1; a >= 0; --a, --b) {
      const int64_t index = rest % to[a];
      rest /= to[a];
      if (b < 0) continue;
      at += (x.shape()[b] == 1 ? 0 : index) * stride;
      stride *= x.shape()[b];
    }
    seen[i] = all[static_cast<size_t>(at)];
  }
  return seen;
}

struct Formula {
  const char* name;
  const char* body;
  bool counts;
};
constexpr Formula kFormulas[] = {
    {"random_plain", "z = x + y * U(2); w = y;", false},
    {"random_counted", "z = x + T(i % 3); w = y + U(n % 2);", true},
    {"random_indexed", "w = y; z = x + T(_ind.get()[0] % 2);", true},
    {"random_kept", "if (y > 1) { z = x; w = y; }", false},
};

class RandomElementwise : public testing::TestWithParam<Formula> {};

TEST_P(RandomElementwise, EqualsPlainLoops) {
  const Formula f = GetParam();
  const std::string which = f.name;
  const ElementwiseKernel k("T x, U y", "T z, U w", f.body, f.name);
  constexpr DType kPairs[][2] = {{f32, f64}, {f16, f32}, {i8, bf16}, {i64, u8}};
  int cases = 0;
  for (Context c : kernel_contexts()) {
    Draws draw(7);
    for (int round = 0; round < 600; ++round, ++cases) {
      const auto& [tx, ty] = kPairs[draw.below(4)];
      const Shape shape = draw.shape();
      const bool first = draw.one_in(2);
      const Tensor x = draw.tensor(first ? shape : draw.narrower(shape), c, tx);
      const Tensor y = draw.tensor(first ? draw.narrower(shape) : shape, c, ty);
      const bool x_number = ty == f64 && draw.one_in(3);
      const bool y_number = ty == f64 && !x_number && draw.one_in(3);
      const Shape loop = x_number   ? y.shape()
                         : y_number ? x.shape()
                                    : broadcast_shapes(x.shape(), y.shape());
      Tensor z, w;
      std::vector<double> z_before(static_cast<size_t>(loop.size())), w_before = z_before;
      const bool kept = which == "random_kept";
      if (kept || x_number || y_number || draw.one_in(2)) {
        z = draw.tensor(loop, c, tx);
        w = draw.tensor(loop, c, ty);
        z_before = values(z);
        w_before = values(w);
      }
      const double number = draw.below(4);
      const std::vector<double> xs =
          x_number ? std::vector<double>(z_before.size(), number) : broadcast(x, loop);
      const std::vector<double> ys =
          y_number ? std::vector<double>(z_before.size(), number) : broadcast(y, loop);
      if (x_number) {
        k.into({number, y}, {z, w});
      } else if (y_number) {
        k.into({x, number}, {z, w});
      } else if (z.defined()) {
        k.into({x, y}, {z, w});
      } else {
        const Tensors out = k.run({x, y});
        z = out[0];
        w = out[1];
      }
      ASSERT_EQ(z.shape(), loop);
      const std::vector<double> zs = values(z), ws = values(w);
      const int64_t n = loop.size();
      int64_t row = 1;  // elements of the first axis's steps
      for (int a = 1; a < loop.rank(); ++a) row *= loop[a];
      for (int64_t i = 0; i < n; ++i) {
        const size_t e = static_cast<size_t>(i);
        double z_expected = xs[e], w_expected = ys[e];
        if (which == "random_plain") z_expected += 2 * ys[e];
        if (which == "random_counted") z_expected += static_cast<double>(i % 3);
        if (which == "random_counted") w_expected += static_cast<double>(n % 2);
        if (which == "random_indexed")
          z_expected += static_cast<double>((loop.rank() == 0 ? 0 : i / row) % 2);
        if (kept && !(ys[e] > 1)) {
          z_expected = z_before[e];
          w_expected = w_before[e];
        }
        ASSERT_EQ(zs[e], z_expected) << which << " round " << round << " element " << i << " of "
                                     << loop << ' ' << name(tx) << ' ' << name(ty) << " on " << c;
        ASSERT_EQ(ws[e], w_expected) << which << " round " << round << " element " << i;
      }
    }
  }
  EXPECT_GE(cases, 600);
}

INSTANTIATE_TEST_SUITE_P(All, RandomElementwise, testing::ValuesIn(kFormulas),
                         [](const auto& p) { return std::string(p.param.name); });

// Outputs that are views of the inputs' memory.
TEST(RandomElementwiseOverlaps, EqualCallsOnCopies) {
  const ElementwiseKernel k("T x, T y, raw T r", "T z", "z = x + 2 * y + r[i % r.size()];",
                            "random_overlaps");
  for (Context c : kernel_contexts()) {
    Draws draw(11);
    for (int round = 0; round < 500; ++round) {
      const DType d = draw.one_in(2) ? f32 : draw.one_in(2) ? f16 : i32;
      const Tensor all = draw.tensor({12, 12}, c, d);
      const auto cut = [&](const Tensor& t) {
        const int64_t r = draw.below(6), s = draw.below(6);
        const Tensor part = t(Slice(r, r + 6), Slice(s, s + 6));
        return draw.one_in(2) ? part : part.T();
      };
      const Tensor z = cut(all), x = draw.one_in(3) ? z : cut(all), y = cut(all), r = cut(all);
      const Tensor expected = k(x.clone(), y.clone(), r.clone());
      k(x, y, r, z);
      ASSERT_EQ(values(z), values(expected)) << round;
    }
  }
}

}  // namespace
}  // namespace locus
