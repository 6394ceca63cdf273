#include <locus/core/error.h>
#include <locus/ops/named.h>
#include <locus/ops/random.h>

namespace locus {
namespace {

constexpr const char* kSize = "size: ints = none, dtype: dtype = none, ctx: context = none)";

// Without a size, the parameters fix the shape.
using OfOne = Tensor (*)(const Operand&, TensorOptions, Caller);
using OfOneSized = Tensor (*)(const Operand&, const Shape&, TensorOptions, Caller);
template <OfOne kPlain, OfOneSized kSized>
void define_by_parameter(const char* name, const char* parameter) {
  ops::define(text_of(name, "(", parameter, ": operand = 1, ", kSize),
              [](const ops::Arguments& a) {
                const Caller from = Caller::here();
                if (a["size"].none()) return kPlain(a.operand(0), a.options(), from);
                return kSized(a.operand(0), a["size"], a.options(), from);
              })
      .made_of({name, "broadcast_to"})
      .no_gradient("draws");
}
using OfTwo = Tensor (*)(const Operand&, const Operand&, TensorOptions, Caller);
using OfTwoSized = Tensor (*)(const Operand&, const Operand&, const Shape&, TensorOptions, Caller);
template <OfTwo kPlain, OfTwoSized kSized>
void define_by_parameters(const char* name, const char* first, const char* second) {
  ops::define(text_of(name, "(", first, ": operand, ", second, kSize),
              [](const ops::Arguments& a) {
                const Caller from = Caller::here();
                if (a["size"].none()) return kPlain(a.operand(0), a.operand(1), a.options(), from);
                return kSized(a.operand(0), a.operand(1), a["size"], a.options(), from);
              })
      .made_of({name, "broadcast_to", "fill"})
      .no_gradient("draws");
}

Tensor chosen(const ops::Arguments& a) {
  random::ChoiceOptions how;
  how.replace = a["replace"];
  const std::vector<double> p = a["p"];
  how.p = p;
  const Tensor data = a.tensor(0);
  if (!data.defined()) return random::choice(int64_t{a["a"]}, a["size"], how, a.options());
  if (int64_t{a["a"]} != 0 || !a["dtype"].none() || !a["ctx"].none())
    throw ValueError("choice: a, dtype and ctx are for positions; expected none of them with data");
  return random::choice(data, a["size"], how);
}

}  // namespace

void register_random_names() {
  ops::define(
      "uniform(low: float = 0, high: float = 1, size: ints = none, dtype: dtype = none, "
      "ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::uniform(a["low"], a["high"], a["size"], a.options());
      });
  ops::define(
      "normal(loc: float = 0, scale: float = 1, size: ints = none, dtype: dtype = none, "
      "ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::normal(a["loc"], a["scale"], a["size"], a.options());
      });
  ops::define(
      "randint(low: int, high: int, size: ints = none, dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) {
        return random::randint(a["low"], a["high"], a["size"], a.options());
      });
  ops::define(
      "bernoulli(prob: float, size: ints = none, dtype: dtype = none, ctx: context = none)",
      [](const ops::Arguments& a) { return random::bernoulli(a["prob"], a["size"], a.options()); });
  ops::define(
      text_of("truncated_normal(lower: float, upper: float, mean: float = 0, std: float = 1, ",
              kSize),
      [](const ops::Arguments& a) {
        return random::truncated_normal(a["lower"], a["upper"], a["mean"], a["std"], a["size"],
                                        a.options());
      });
  ops::define(text_of("laplace(loc: float = 0, scale: float = 1, ", kSize),
              [](const ops::Arguments& a) {
                return random::laplace(a["loc"], a["scale"], a["size"], a.options());
              });
  ops::define(text_of("binomial(n: int, p: float, ", kSize), [](const ops::Arguments& a) {
    return random::binomial(a["n"], a["p"], a["size"], a.options());
  });
  define_by_parameter<random::exponential, random::exponential>("exponential", "scale");
  define_by_parameter<random::poisson, random::poisson>("poisson", "lam");
  define_by_parameters<random::gamma, random::gamma>("random_gamma", "shape",
                                                     "scale: operand = 1, ");
  define_by_parameters<random::beta, random::beta>("beta", "a", "b: operand, ");
  ops::define(text_of("multinomial(n: int, pvals: floats, ", kSize),
              [](const ops::Arguments& a) {
                const std::vector<double> pvals = a["pvals"];
                return random::multinomial(a["n"], pvals, a["size"], a.options());
              })
      .made_of({"multinomial", "copyto"})
      .no_gradient("draws");
  // Entries of data, or, without data, positions below n.
  ops::define(
      text_of("choice(data = none, a: int = 0, replace: bool = true, p: floats = none, ", kSize),
      chosen)
      .made_of({"take", "randint", "choice", "exponential", "reshape", "slice", "copyto"})
      .no_capture("without replacement it is drawn on the host");
  ops::define("permutation(n: int, dtype: dtype = none, ctx: context = none)",
              [](const ops::Arguments& a) { return random::permutation(a["n"], a.options()); })
      .made_of({"copy", "copyto"})
      .no_gradient("has no inputs")
      .no_capture("it is drawn on the host");
  ops::define("shuffle(data)", [](const ops::Arguments& a) { return random::shuffle(a.tensor(0)); })
      .made_of({"take"})
      .no_capture("the order is drawn on the host");
}

}  // namespace locus
