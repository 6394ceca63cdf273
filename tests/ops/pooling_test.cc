#include "tests/support/contexts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <locus/core/autograd.h>
#include <locus/devices/cpu.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/pooling.h>
#include <locus/ops/pooling/pooling_kernel.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;
using testing::HasSubstr;
using Values = std::vector<double>;

// Pooling of three spatial axes, channels first, one window at a time.
struct Naive {
  int64_t planes, data[3], window[3], stride[3], padding[3];
  bool ceil, include;
  int64_t result[3];

  void measure() {
    for (int a = 0; a < 3; ++a) {
      const double room = static_cast<double>(data[a] + 2 * padding[a] - window[a]);
      const double steps = room / static_cast<double>(stride[a]);
      result[a] = static_cast<int64_t>(ceil ? std::ceil(steps) : std::floor(steps)) + 1;
      if (ceil && (result[a] - 1) * stride[a] >= data[a] + padding[a]) --result[a];
    }
  }
  // each(x, y, count): flat indices of an element and of a window around it.
  template <class F>
  void each(const F& f) const {
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t y = 0; y < product(result); ++y) {
        const int64_t at[3] = {y / (result[1] * result[2]), y / result[2] % result[1],
                               y % result[2]};
        double inside = 1, padded = 1;
        for (int a = 0; a < 3; ++a) {
          const int64_t from = at[a] * stride[a] - padding[a], to = from + window[a];
          inside *= static_cast<double>(std::min(to, data[a]) - std::max<int64_t>(from, 0));
          padded *= static_cast<double>(std::min(to, data[a] + padding[a]) - from);
        }
        for (int64_t w = 0; w < product(window); ++w) {
          const int64_t tap[3] = {w / (window[1] * window[2]), w / window[2] % window[1],
                                  w % window[2]};
          int64_t x = 0;
          bool there = true;
          for (int a = 0; a < 3; ++a) {
            const int64_t i = at[a] * stride[a] - padding[a] + tap[a];
            there = there && i >= 0 && i < data[a];
            x = x * data[a] + i;
          }
          if (there)
            f(static_cast<size_t>(p * product(data) + x),
              static_cast<size_t>(p * product(result) + y), include ? padded : inside);
        }
      }
  }
  static int64_t product(const int64_t (&v)[3]) { return v[0] * v[1] * v[2]; }
};

Tensor moved(const Tensor& t, bool to_last) {
  std::vector<int> axes{0};
  for (int a = 1; a < t.ndim(); ++a) axes.push_back(a);
  std::rotate(axes.begin() + 1, to_last ? axes.begin() + 2 : axes.end() - 1, axes.end());
  return contiguous(transpose(t, axes));
}

Extent extent(const int64_t (&v)[3], int axes) {
  const int64_t* p = v + 3 - axes;
  return axes == 1 ? Extent{p[0]} : axes == 2 ? Extent{p[0], p[1]} : Extent{p[0], p[1], p[2]};
}

double tolerance(DType d) { return d == f64 ? 1e-13 : d == f32 ? 1e-6 : d == f16 ? 2e-3 : 1.6e-2; }

void expect_close(const Values& got, const Values& wanted, DType d, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance(d) * (1 + std::fabs(wanted[i]))) << what << " " << i;
}

void check_case(std::mt19937& random, Context c, DType d) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const int axes = static_cast<int>(pick(1, 3));
  const bool last = pick(0, 1) == 1, maximum = pick(0, 1) == 1;
  Naive v{};
  const int64_t n = pick(1, 3), channels = pick(0, 4) == 0 ? 70 : pick(1, 5);
  v.planes = n * channels;
  v.ceil = pick(0, 1) == 1;
  v.include = pick(0, 1) == 1;
  for (int a = 0; a < 3; ++a) {
    const bool there = a >= 3 - axes;
    v.window[a] = there ? pick(1, 4) : 1;
    v.stride[a] = there ? pick(1, 5) : 1;
    v.padding[a] = there ? pick(0, v.window[a] - 1) : 0;
    const int64_t least = std::max<int64_t>(1, v.window[a] - 2 * v.padding[a]);
    v.data[a] = there ? least + pick(0, axes == 3 ? 5 : axes == 2 ? 12 : 150) : 1;
  }
  v.measure();
  std::vector<int64_t> dims{n, channels};
  dims.insert(dims.end(), v.data + 3 - axes, v.data + 3);
  Tensor x = sample_values(c, d, Shape(dims));
  if (last) x = moved(x, true);
  static constexpr std::string_view kLayouts[3][2] = {
      {"NCW", "NWC"}, {"NCHW", "NHWC"}, {"NCDHW", "NDHWC"}};
  const PoolingOptions options{extent(v.stride, axes), extent(v.padding, axes), v.ceil, v.include,
                               kLayouts[axes - 1][last]};
  const auto first = [&](const Tensor& t) { return values(last ? moved(t, false) : t); };
  std::ostringstream text;
  text << c << " " << name(d) << (maximum ? " max " : " mean ") << x.shape() << options.layout;
  SCOPED_TRACE(text.str());

  x.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = maximum ? max_pool(x, extent(v.window, axes), options)
                : avg_pool(x, extent(v.window, axes), options);
  }
  const Tensor dy = sample_values(c, d, y.shape(), -2, 2, 3);
  const Values xs = first(x), dys = first(dy);
  ASSERT_EQ(static_cast<int64_t>(dys.size()), v.planes * Naive::product(v.result));
  Values wanted(dys.size(), maximum ? -INFINITY : 0), dx(xs.size());
  std::vector<size_t> place(dys.size(), SIZE_MAX);
  v.each([&](size_t xi, size_t yi, double count) {
    if (!maximum) {
      wanted[yi] += xs[xi] / count;
    } else if (place[yi] == SIZE_MAX || xs[xi] > wanted[yi]) {
      wanted[yi] = xs[xi];
      place[yi] = xi;
    }
  });
  v.each([&](size_t xi, size_t yi, double count) {
    if (!maximum) dx[xi] += dys[yi] / count;
  });
  for (size_t i = 0; maximum && i < dys.size(); ++i) dx[place[i]] += dys[i];
  expect_close(first(y), wanted, d, "y");
  y.backward({.head_gradient = dy});
  expect_close(first(x.grad()), dx, d, "dx");
}

TEST(Pooling, AgreesWithLoopsOverItsWindows) {
  std::mt19937 random(11);
  for (Context c : test::contexts())
    for (DType d : {f32, f64, f16, bf16})
      for (int i = 0; i < (d == f32 ? 80 : 30); ++i) {
        check_case(random, c, d);
        if (HasFatalFailure()) return;
      }
}

TEST(Pooling, TheFirstMaximumGetsTheGradient) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{{1.f, 3.f, 3.f, 2.f, 2.f, 2.f}}}, c);
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = max_pool(x, 3);
    }
    y.backward();
    EXPECT_EQ(values(x.grad()), (Values{0, 1, 0, 1, 0, 0}));
  }
}

TEST(Pooling, NaNIsTheMaximumAndTakesTheGradient) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{{1.f, NAN, 3.f, NAN, -INFINITY, -INFINITY}}}, c);
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = max_pool(x, 2);
    }
    y.backward();
    const Values v = values(y);
    EXPECT_TRUE(std::isnan(v[0]) && std::isnan(v[1]));
    EXPECT_EQ(v[2], -INFINITY);
    EXPECT_EQ(values(x.grad()), (Values{0, 1, 0, 1, 1, 0}));
  }
}

TEST(Pooling, OverlappingWindowsAddWhereTheirFirstMaximumIs) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{{1.f, 3.f, 3.f, 2.f, NAN, 5.f, -0.f, 0.f, -0.f}}}, c);
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = max_pool(x, 3, {.strides = 1});
    }
    y.backward({.head_gradient = array({{{1.f, 2.f, 4.f, 8.f, 16.f, 32.f, 64.f}}}, c)});
    EXPECT_EQ(values(x.grad()), (Values{0, 3, 0, 0, 28, 32, 64, 0, 0}));
  }
}

TEST(Pooling, OneWindowOfABigPlaneHasOneFirstMaximum) {
  constexpr int64_t kRows = 120, kColumns = 90, kAll = kRows * kColumns;
  for (Context c : test::contexts())
    for (bool last : {false, true}) {
      const Tensor planes = sample_values(c, f32, {2, 3, kRows, kColumns});
      Values xs = values(planes), most, means, dx(xs.size());
      for (size_t p = 0; p < 6; ++p) {
        const auto first = xs.begin() + static_cast<int64_t>(p) * kAll;
        first[777 * static_cast<int64_t>(p)] = first[9000] = 5;
        most.push_back(5);
        means.push_back(std::accumulate(first, first + kAll, 0.) / kAll);
        dx[p * kAll + 777 * p] = 1;
      }
      const Tensor x = array(std::vector<float>(xs.begin(), xs.end()), c).reshape(planes.shape());
      const Tensor data = last ? moved(x, true) : x;
      const PoolingOptions options{.layout = last ? "NHWC" : "NCHW"};
      data.attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = global_max_pool(data, options.layout);
      }
      y.backward();
      EXPECT_EQ(values(y), most);
      EXPECT_EQ(values(last ? moved(data.grad(), false) : data.grad()), dx);
      test::expect_near(values(avg_pool(data, {kRows, kColumns}, options)), means, 1e-6, "mean");
    }
}

TEST(Pooling, CeilModeAddsWindowsThatBeginInTheData) {
  const Tensor x = arange(7).reshape({1, 1, 7});
  EXPECT_EQ(values(max_pool(x, 2)), (Values{1, 3, 5}));
  EXPECT_EQ(values(max_pool(x, 2, {.ceil_mode = true})), (Values{1, 3, 5, 6}));
  EXPECT_EQ(values(avg_pool(x, 2, {.ceil_mode = true})), (Values{0.5, 2.5, 4.5, 6}));
  EXPECT_EQ(avg_pool(x, 1, {.strides = 4, .ceil_mode = true}).shape()[2], 2);  // not one at 8
  const Tensor padded = avg_pool(x, 3, {.strides = 3, .padding = 1});
  test::expect_near(values(padded), {1.0 / 3, 3, 11.0 / 3}, 1e-6, "padding counts");
  const Tensor alone = avg_pool(x, 3, {.strides = 3, .padding = 1, .count_include_pad = false});
  test::expect_near(values(alone), {0.5, 3, 5.5}, 1e-6, "padding does not count");
}

TEST(Pooling, AdaptiveWindowsShareTheData) {
  for (Context c : test::contexts()) {
    const Tensor x = arange(7, {c, f64}).reshape({1, 1, 7});
    EXPECT_EQ(values(adaptive_avg_pool(x, 3)), (Values{1, 3, 5}));  // 0-2, 2-4, 4-6
    EXPECT_EQ(values(adaptive_avg_pool(x, 1)), (Values{3}));
    EXPECT_EQ(adaptive_avg_pool(x, 10).shape(), (Shape{1, 1, 10}));
    const Tensor image = sample_values(c, f64, {2, 5, 4, 3});
    EXPECT_EQ(adaptive_avg_pool(image, {2, 1}, "NHWC").shape(), (Shape{2, 2, 1, 3}));
  }
}

TEST(Pooling, GlobalOnesLeaveOneElement) {
  for (Context c : test::contexts()) {
    const Tensor x = arange(24, {c, f64}).reshape({1, 2, 3, 4});
    EXPECT_EQ(values(global_max_pool(x)), (Values{11, 23}));
    EXPECT_EQ(values(global_avg_pool(x)), (Values{5.5, 17.5}));
    EXPECT_EQ(global_avg_pool(x, "NHWC").shape(), (Shape{1, 1, 1, 4}));
    EXPECT_EQ(global_max_pool(x, "NHWC").shape(), (Shape{1, 1, 1, 4}));
  }
}

// max_pool, avg_pool, and the gradient.
std::vector<std::vector<float>> bits(Context c) {
  const Tensor x = sample_values(c, f32, {9, 13, 40, 41});
  x.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = max_pool(x, 3, {.strides = 2, .padding = 1}) + avg_pool(x, 3, {.strides = 2, .padding = 1});
  }
  y.backward();
  return {y.to_vector<float>(), x.grad().to_vector<float>()};
}

// Kernel indices for data too large to allocate here, in 32 bits if possible.
template <class I>
void check_places(const PoolingOf<I>& p, std::mt19937& random) {
  const auto some = [&](auto n) { return n - 1 - static_cast<I>(random() % std::min<I>(n, 1000)); };
  const I n = some(p.images), c = some(p.channels);
  I x = 0, y = 0;
  for (int a = 0; a < 3; ++a) {
    const I at = some(p.data[a]), begin = p.windows(a, at).begin, end = p.windows(a, at).end;
    for (I w : {begin - 1, begin, end - 1, end}) {
      if (w < 0 || w >= p.result[a]) continue;
      const int64_t from = int64_t{w} * p.stride[a] - p.padding[a], to = from + p.window[a];
      const auto seen = p.range(a, w);
      ASSERT_EQ(seen.begin, std::max<int64_t>(from, 0));
      ASSERT_EQ(seen.end, std::min<int64_t>(to, p.data[a]));
      ASSERT_EQ(seen.begin <= at && at < seen.end, w >= begin && w < end);
    }
    x = x * p.data[a] + at;
    y = y * p.result[a] + some(p.result[a]);
  }
  const auto place = [&](int64_t planes, int64_t at) {
    return p.channels_last ? (n * planes + at) * p.channels + c
                           : (int64_t{n} * p.channels + c) * planes + at;
  };
  ASSERT_EQ(p.data_at(n, c, x), place(p.elements(), x));
  ASSERT_EQ(p.result_at(n, c, y), place(p.positions(), y));
}

TEST(Pooling, FindsItsPlacesInDataOfMoreThan2To31Elements) {
  std::mt19937 random(3);
  int narrowed_ones = 0, large = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto up_to = [&](int bits) { return int64_t{1} + random() % (1ull << random() % bits); };
    PoolingAttrs a;
    Meta x = make_meta(f32, Shape{up_to(6), up_to(6), up_to(4), up_to(16), up_to(16)}), y = x;
    a.channels_last = i % 2 == 0;
    for (int axis = 0; axis < 3; ++axis) {
      const int at = axis + (a.channels_last ? 1 : 2);
      a.window[axis] = 1 + random() % x.shape[at];
      a.stride[axis] = 1 + random() % (2 * a.window[axis]);
      a.padding[axis] = random() % a.window[axis];
      y.shape[at] =
          pooled_length(x.shape[at], a.window[axis], a.stride[axis], a.padding[axis], i % 3 == 0);
    }
    const Pooling p = make_pooling(x, y, a);
    check_places(p, random);
    large += x.size() >= int64_t{1} << 31;
    if (!narrow(p)) continue;
    ++narrowed_ones;
    ASSERT_LT(x.size(), int64_t{1} << 31);
    check_places(narrowed(p), random);
  }
  EXPECT_GT(large, 100);
  EXPECT_GT(narrowed_ones, 1000);
}

TEST(Pooling, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto all = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    const auto result = bits(cpu());
    set_num_threads(before);
    return result;
  };
  EXPECT_EQ(all(2), all(1));
  EXPECT_EQ(all(5), all(1));
}

TEST(Pooling, GivesTheSameBitsTwiceEverywhere) {
  for (Context c : test::contexts()) EXPECT_EQ(bits(c), bits(c)) << c;
}

TEST(Pooling, AnEmptyBatchStaysEmpty) {
  EXPECT_EQ(max_pool(zeros({0, 3, 4, 4}), 2).shape(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(avg_pool(zeros({0, 3, 4, 4}), 2).shape(), (Shape{0, 3, 2, 2}));
}

TEST(Pooling, ErrorsNameTheAxisAndWhatWasExpected) {
  const Tensor x = zeros({2, 3, 8, 8});
  const auto text = [](const auto& f) { return test::message_of<Error>(f); };
  EXPECT_THAT(
      text([&] {
        max_pool(x, {2, 9});
      }),
      HasSubstr("expected axis 3 of the data, 8 long with 0 of padding on both sides, to be "
                "at least the window's 9"));
  EXPECT_THAT(text([&] { max_pool(x, 2, {.padding = 2}); }), HasSubstr("0 <= padding < window"));
  EXPECT_THAT(text([&] { avg_pool(x, 0); }), HasSubstr("a window and a stride of at least 1"));
  EXPECT_THAT(text([&] { avg_pool(zeros({8, 8}), 2); }), HasSubstr("rank 3 to 5, got (8,8)"));
  EXPECT_THAT(text([&] {
                global_max_pool(zeros({2, 3, 0, 4}));
              }),
              HasSubstr("global_max_pool: data cpu(0) (2,3,0,4) f32: expected at least 1 element"));
  EXPECT_THAT(text([&] {
                global_avg_pool(zeros({2, 3, 4, 0}));
              }),
              HasSubstr("global_avg_pool: data cpu(0) (2,3,4,0) f32: expected at least 1 element "
                        "along axis 3"));
  EXPECT_THAT(text([&] { max_pool(x, 2, {.layout = "NWC"}); }),
              HasSubstr("max_pool: layout \"NWC\"; expected NCHW or NHWC"));
  EXPECT_THAT(text([&] { adaptive_avg_pool(x, {4, 0}); }), HasSubstr("1 window along axis 3"));
}

}  // namespace
}  // namespace locus
