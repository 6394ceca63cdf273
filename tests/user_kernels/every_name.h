// Kernels that call every function of ops/jit/names.h with operands of every type, and what <cmath>
// computes.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace locus::test {

// "put(f(a, b)); ..." and the results. An operand is a float unless it is f64 or all are integers.
class EveryName {
 public:
  static constexpr const char* kInputs = "f32 a, f64 b, i32 c, i64 d, bool e";
  static constexpr const char* kOutputs = "raw f16 h, raw f64 value, raw i32 bytes";
  struct Result {
    std::string call;
    double value, tolerance;
    int bytes;
  };

  EveryName() {
#define LOCUS_ONE(name) \
  one(                  \
      #name, [](auto x) { return std::name(x); }, 1e-6, 1e-13)
#define LOCUS_ONE_EXACT(name) \
  one(                        \
      #name, [](auto x) { return std::name(x); }, 0, 0)
    LOCUS_ONE_EXACT(sqrt), LOCUS_ONE_EXACT(floor), LOCUS_ONE_EXACT(ceil), LOCUS_ONE_EXACT(trunc);
    LOCUS_ONE_EXACT(rint), LOCUS_ONE_EXACT(round), LOCUS_ONE_EXACT(nearbyint);
    LOCUS_ONE_EXACT(logb), LOCUS_ONE_EXACT(fabs), LOCUS_ONE(cbrt), LOCUS_ONE(sin), LOCUS_ONE(cos);
    LOCUS_ONE(tan), LOCUS_ONE(asin), LOCUS_ONE(acos), LOCUS_ONE(atan), LOCUS_ONE(sinh);
    LOCUS_ONE(cosh), LOCUS_ONE(tanh), LOCUS_ONE(asinh), LOCUS_ONE(acosh), LOCUS_ONE(atanh);
    LOCUS_ONE(exp), LOCUS_ONE(expm1), LOCUS_ONE(exp2), LOCUS_ONE(log), LOCUS_ONE(log1p);
    LOCUS_ONE(log2), LOCUS_ONE(log10), LOCUS_ONE(erf), LOCUS_ONE(erfc), LOCUS_ONE(lgamma);
    LOCUS_ONE(tgamma);
#undef LOCUS_ONE
#undef LOCUS_ONE_EXACT
    one(
        "exp10", [](auto x) { return std::pow(decltype(x)(10), x); }, 1e-6, 1e-13);
    one(
        "rsqrt", [](auto x) { return 1 / std::sqrt(x); }, 1e-6, 1e-13);
    one(
        "rcbrt", [](auto x) { return 1 / std::cbrt(x); }, 1e-6, 1e-13);
    each([&](const char* x, auto v) {
      const auto p = +v;
      add(text("abs", x), p < 0 ? -p : p);
      add(text("isnan", x), v != v);
      add(text("isinf", x), std::isinf(static_cast<double>(v)));
      add(text("isfinite", x), std::isfinite(static_cast<double>(v)));
      add(text("signbit", x), p < 0);
      add(text("ldexp", x, "3"), static_cast<Floating<decltype(v)>>(v) * 8);
    });
#define LOCUS_TWO(name, tolerance) \
  two(                             \
      #name, [](auto x, auto y) { return std::name(x, y); }, tolerance)
    LOCUS_TWO(pow, 1), LOCUS_TWO(hypot, 1), LOCUS_TWO(atan2, 1), LOCUS_TWO(fmod, 0);
    LOCUS_TWO(copysign, 0), LOCUS_TWO(fmax, 0), LOCUS_TWO(fmin, 0), LOCUS_TWO(remainder, 0);
    LOCUS_TWO(fdim, 0), LOCUS_TWO(nextafter, 0);
#undef LOCUS_TWO
    each([&](const char* x, auto v) {
      each([&](const char* y, auto w) {
        add(text("max", x, y), v < w ? +w : +v);
        add(text("min", x, y), v < w ? +v : +w);
        each([&](const char* z, auto u) {
          using V = Floating<decltype(v), decltype(w), decltype(u)>;
          add(text("fma", x, y, z),
              std::fma(static_cast<V>(v), static_cast<V>(w), static_cast<V>(u)));
        });
      });
    });
  }

  std::string body() const {
    std::string s = R"(
const auto half = h[0];  // an f16 element, not a float
double* to = &value[_ind.get()[0]];
int* size = &bytes[0];
const auto put = [&](auto v) { *to++ = v; *size++ = sizeof(v); };
)";
    for (const Result& r : results_) s += "put(" + r.call + ");\n";
    return s;
  }
  const std::vector<Result>& results() const { return results_; }

 private:
  template <class... T>
  using Floating =
      std::conditional_t<(std::is_same_v<T, double> || ...) || (std::is_integral_v<T> && ...),
                         double, float>;

  // f(name, value) for the operands.
  static void each(const auto& f) {
    f("a", 0.5f), f("b", 0.75), f("c", 3), f("d", int64_t{-2}), f("e", true);
    f("half", 0.25f);
  }
  static std::string text(const std::string& name, const std::string& x, const auto&... more) {
    return name + "(" + x + ((std::string(", ") + more) + ... + "") + ")";
  }
  void add(const std::string& call, auto v, double tolerance = 0) {
    results_.push_back({call, static_cast<double>(v), tolerance, sizeof(v)});
  }
  void one(const char* name, const auto& f, double of_floats, double of_doubles) {
    each([&](const char* x, auto v) {
      using V = Floating<decltype(v)>;
      add(text(name, x), f(static_cast<V>(v)), sizeof(V) == 4 ? of_floats : of_doubles);
    });
  }
  void two(const char* name, const auto& f, double tolerance) {
    each([&](const char* x, auto v) {
      each([&](const char* y, auto w) {
        using V = Floating<decltype(v), decltype(w)>;
        add(text(name, x, y), f(static_cast<V>(v), static_cast<V>(w)),
            tolerance * (sizeof(V) == 4 ? 1e-6 : 1e-13));
      });
    });
  }

  std::vector<Result> results_;
};

// Each atomic function on its own element of x, and the old values in `old`. The second body is for
// integers.
inline constexpr const char* kAtomics =
    "old[0] = atomicAdd(&x[0], v); old[1] = atomicSub(&x[1], v); old[2] = atomicMax(&x[2], v);\n"
    "old[3] = atomicMin(&x[3], v); old[4] = atomicExch(&x[4], v);\n"
    "old[5] = atomicCAS(&x[5], x[5], v); old[6] = atomicCAS(&x[6], T(0), v);";
inline constexpr const char* kBitAtomics =
    "old[0] = atomicAnd(&x[0], v); old[1] = atomicOr(&x[1], v); old[2] = atomicXor(&x[2], v);";

}  // namespace locus::test
