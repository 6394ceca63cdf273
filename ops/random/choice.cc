#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/capture.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/random/draw.h>

namespace locus::random {
namespace {

void check_chances(const char* op, const std::vector<double>& p) {
  for (size_t i = 0; i < p.size(); ++i)
    if (!(p[i] >= 0 && p[i] <= 1))
      throw ValueError(op, ": probability ", i, " is ", p[i], "; expected numbers in [0, 1]");
}

void check_choice(int64_t n, int64_t count, const ChoiceOptions& how, DType dtype) {
  if (n < 0 || (n == 0 && count > 0))
    throw ValueError("choice: expected n > 0 for ", count, " entries, got ", n);
  if (dtype != i64 && dtype != i32)
    throw DTypeError("choice: expected dtype i64 or i32, got ", name(dtype));
  if (n > 0 && !holds(dtype, n - 1))
    throw DTypeError("choice: numbers below ", n, " do not fit dtype ", name(dtype));
  if (!how.replace && count > n)
    throw ValueError("choice: ", count, " entries of ", n,
                     " without replacement; expected at most ", n);
  if (how.p.empty()) return;
  if (static_cast<int64_t>(how.p.size()) != n)
    throw ValueError("choice: ", how.p.size(), " probabilities for ", n, " entries; expected ", n);
  check_chances("choice", how.p);
  const double sum = std::accumulate(how.p.begin(), how.p.end(), 0.0);
  if (!(std::abs(sum - 1) < 1.5e-8))
    throw ValueError("choice: the probabilities sum to ", sum, "; expected 1");
  const int64_t possible = n - std::ranges::count(how.p, 0.0);
  if (!how.replace && count > possible)
    throw ValueError("choice: ", count, " entries without replacement, but only ", possible,
                     " have a probability above 0");
}

// The exchanges of Fisher and Yates. The partners of some exchanges are computed before these
// exchanges, so that memory is fetched early.
class Exchanges {
 public:
  explicit Exchanges(uint64_t n) : key_(reserve(n * 2)) {}
  // A number below `choices`, from word k of the sequence.
  uint64_t below(uint64_t choices, uint64_t k) {
    if (k / 2 != block_) words_ = philox(key_, block_ = k / 2);
    return locus::detail::multiply_high(locus::detail::pair(words_, static_cast<int>(k % 2)),
                                        choices);
  }
  // Swaps at[i] and at[partner(i)] for `count` numbers i from `from` on, in steps of +1 or -1.
  template <class I>
  static void run(I* at, uint64_t from, uint64_t count, int step, auto partner) {
    constexpr uint64_t kAhead = 64;
    uint64_t other[kAhead];
    const auto moved = [step](uint64_t i, uint64_t k) { return step > 0 ? i + k : i - k; };
    for (uint64_t done = 0; done < count; done += kAhead) {
      const uint64_t i = moved(from, done), m = std::min(kAhead, count - done);
      for (uint64_t k = 0; k < m; ++k) {
        other[k] = partner(moved(i, k));
        __builtin_prefetch(at + other[k]);
      }
      for (uint64_t k = 0; k < m; ++k) std::swap(at[moved(i, k)], at[other[k]]);
    }
  }

 private:
  PhiloxKey key_;
  PhiloxBlock words_{};
  uint64_t block_ = ~uint64_t{0};
};

// i32 holds the positions below n in half the memory.
bool fits_i32(int64_t n) { return n <= int64_t{1} << 31; }

// f with a pointer to 0 ... n-1 in a host tensor, which it returns.
Tensor counted(int64_t n, auto f) {
  const Tensor all = empty({n}, {cpu(), fits_i32(n) ? i32 : i64});
  const auto fill = [&](auto* at) {
    for (int64_t i = 0; i < n; ++i) at[i] = static_cast<std::remove_pointer_t<decltype(at)>>(i);
    f(at);
  };
  if (fits_i32(n))
    fill(static_cast<int32_t*>(all.data_ptr()));
  else
    fill(static_cast<int64_t*>(all.data_ptr()));
  return all;
}

// `count` different places below n, i32 or i64: the first exchanges of Fisher and Yates. If they
// are few, a map holds the entries that were moved.
Tensor some_places(int64_t n, int64_t count) {
  const auto all = static_cast<uint64_t>(n), few = static_cast<uint64_t>(count);
  Exchanges exchanges(few);
  const auto partner = [&](uint64_t i) { return i + exchanges.below(all - i, i); };
  if (count >= n / 16)
    return counted(n, [&](auto* at) { Exchanges::run(at, 0, few, 1, partner); })(Slice(0, count));
  std::unordered_map<uint64_t, uint64_t> moved;
  const auto at = [&](uint64_t i) -> uint64_t& { return moved.try_emplace(i, i).first->second; };
  std::vector<int64_t> places;
  for (uint64_t i = 0; i < few; ++i) {
    const uint64_t other = partner(i), here = at(i);
    places.push_back(static_cast<int64_t>(at(other)));
    at(other) = here;
  }
  return array(places, cpu());
}

// By probabilities: the `count` smallest of waiting times with rates p (Efraimidis and Spirakis,
// "Weighted random sampling with a reservoir", 2006).
Tensor some_places(const std::vector<double>& p, int64_t count) {
  const auto n = static_cast<int64_t>(p.size());
  std::vector<double> time = exponential(1, {n}, {cpu(), f64}).to_vector<double>();
  std::vector<int64_t> places;
  for (size_t i = 0; i < p.size(); ++i) {
    time[i] /= p[i];
    if (p[i] > 0) places.push_back(static_cast<int64_t>(i));
  }
  std::ranges::partial_sort(places, places.begin() + count, [&time](int64_t a, int64_t b) {
    const double x = time[static_cast<size_t>(a)], y = time[static_cast<size_t>(b)];
    return x < y || (x == y && a < b);
  });
  places.resize(static_cast<size_t>(count));
  return array(places, cpu());
}

}  // namespace

Tensor permutation(int64_t n, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  if (n < 0) throw ValueError("permutation: expected n >= 0, got ", n);
  const DType dtype = o.dtype.value_or(i64);
  const auto exact = [dtype](int64_t v) {
    return dispatch(dtype, [v](auto type) {
      return convert<int64_t>(convert<typename decltype(type)::type>(v)) == v;
    });
  };
  if (n > 1 && !(exact(n - 1) && exact(n - 2)))  // one of them is odd
    throw DTypeError("permutation: numbers below ", n, " do not fit dtype ", name(dtype));
  capture::check("permutation", "it is drawn on the host");
  const auto all = static_cast<uint64_t>(n);
  Exchanges exchanges(all);
  const auto partner = [&](uint64_t i) { return exchanges.below(i + 1, i); };
  const Tensor order = counted(n, [&](auto* at) {
    if (n > 1) Exchanges::run(at, all - 1, all - 1, -1, partner);
  });
  return order.astype(dtype).as_in_context(o.context.value_or(current_context()), from);
} catch (const Error&) {
  locus::detail::rethrow_as("permutation", from);
}

Tensor choice(int64_t n, const Shape& size, const ChoiceOptions& how, TensorOptions o,
              Caller from) try {
  const UserLine user_line(from);
  const DType dtype = o.dtype.value_or(i64);
  const Context c = o.context.value_or(current_context());
  const int64_t count = locus::detail::checked_meta("choice", dtype, size).size();
  check_choice(n, count, how, dtype);
  if (how.replace && how.p.empty())
    return n == 0 ? empty(size, {c, dtype}) : randint(0, n, size, {c, dtype}, from);
  if (!how.replace) {
    capture::check("choice", "without replacement it is drawn on the host");
    const Tensor places = how.p.empty() ? some_places(n, count) : some_places(how.p, count);
    return places.astype(dtype).reshape(size).as_in_context(c, from);
  }
  static const OpRef<RandomAttrs> op("choice");
  std::vector<double> sums(how.p.size());
  std::partial_sum(how.p.begin(), how.p.end(), sums.begin());
  for (double& sum : sums) sum /= sums.back();
  return detail::draw(op, RandomAttrs{}, size, {c, dtype}, i64, 2, {array(sums, {c, f64}, from)});
} catch (const Error&) {
  locus::detail::rethrow_as("choice", from);
}

Tensor choice(const Tensor& x, const Shape& size, const ChoiceOptions& how, Caller from) try {
  const UserLine user_line(from);
  if (x.ndim() == 0) throw ShapeError("choice: ", describe(x), ": expected at least one axis");
  return take(x, choice(x.shape()[0], size, how, x.context(), from));
} catch (const Error&) {
  locus::detail::rethrow_as("choice", from);
}

Tensor multinomial(int64_t n, const std::vector<double>& pvals, const Shape& size, TensorOptions o,
                   Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("multinomial");
  detail::check_tries("multinomial", n, o.dtype.value_or(i64));
  if (pvals.empty()) throw ValueError("multinomial: no probabilities; expected one a category");
  check_chances("multinomial", pvals);
  const double sum = std::accumulate(pvals.begin(), pvals.end() - 1, 0.0);
  if (sum > 1 + 1e-12)
    throw ValueError("multinomial: the probabilities before the last sum to ", sum,
                     "; expected at most 1");
  const Context c = o.context.value_or(current_context());
  const auto categories = static_cast<int64_t>(pvals.size());
  const Meta rows = locus::detail::checked_meta("multinomial", o.dtype.value_or(i64), size);
  const Shape all(with_axis(rows, rows.rank, categories));
  return detail::draw(op, RandomAttrs{.low = n}, all, {c, rows.dtype}, i64, 4,
                      {array(pvals, {c, f64}, from)});
} catch (const Error&) {
  locus::detail::rethrow_as("multinomial", from);
}

Tensor shuffle(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  if (x.ndim() == 0) throw ShapeError("shuffle: ", describe(x), ": expected at least one axis");
  return take(x, permutation(x.shape()[0], x.context(), from));
} catch (const Error&) {
  locus::detail::rethrow_as("shuffle", from);
}

}  // namespace locus::random
