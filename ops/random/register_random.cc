// The ops of the random family.
#include <locus/ops/random/draw.h>

namespace locus {
namespace {

DType random_infer(std::span<const Meta> in, const RandomAttrs& a, std::span<Meta> out) {
  for (const Meta& each : in)
    if (each.dtype != f64 || Shape(each) != Shape(a.meta))
      throw ShapeError("expected parameters of shape ", Shape(a.meta), " and dtype f64");
  out[0] = a.meta;
  return a.meta.dtype;
}
DType truncated_infer(std::span<const Meta>, const TruncatedAttrs& a, std::span<Meta> out) {
  out[0] = a.meta;
  return a.meta.dtype;
}
DType table_infer(std::span<const Meta> in, const RandomAttrs& a, std::span<Meta> out) {
  if (in[0].dtype != f64 || in[0].rank != 1 || in[0].shape[0] == 0)
    throw ShapeError("expected f64 probabilities of one axis");
  out[0] = a.meta;
  return a.meta.dtype;
}
DType multinomial_infer(std::span<const Meta> in, const RandomAttrs& a, std::span<Meta> out) {
  table_infer(in, a, out);
  const int last = a.meta.rank - 1;
  if (last < 0 || a.meta.shape[last] != in[0].shape[0])
    throw ShapeError("expected a result whose last axis has ", in[0].shape[0], " entries");
  return a.meta.dtype;
}

// Attributes that suit each distribution. Keys differ at each call and, if captured, at each
// replay.
template <class A>
A with_key(A a, Context c, DType d, const Shape& shape) {
  a.meta = make_meta(d, shape);
  a.key = live<PhiloxKey>(c, [] { return random::reserve(4096); });
  return a;
}
RandomAttrs attributes(Context c, DType d, int i) {
  const RandomAttrs first{.a = .3, .b = 2, .low = 3, .range = 100};
  const RandomAttrs second{.a = .6, .b = 1.3, .low = 7, .range = 41};
  return with_key(i == 0 ? first : second, c, d, i == 0 ? Shape{3, 7} : Shape{1001});
}
Samples samples(Context c, DType d) {
  return {Sample({}, attributes(c, d, 0)), Sample({}, attributes(c, d, 1))};
}

// Also small and large parameters, and one parameter an element.
template <int kInputs>
Samples parameter_samples(Context c, DType d) {
  Samples all = samples(c, d);
  for (const double a : {.02, 1.5, 30.0})
    all.push_back(Sample({}, with_key(RandomAttrs{.a = a, .b = 3}, c, d, {40})));
  const RandomAttrs each = with_key(RandomAttrs{}, c, d, {3, 50});
  Tensors in;
  for (int k = 0; k < kInputs; ++k) in.push_back(sample_values(c, f64, {3, 50}, .1, 40, k));
  Sample by_element(in, each);
  for (int k = 0; k < kInputs; ++k) by_element.finite.push_back(k);
  all.push_back(by_element);
  return all;
}
// The walk over a floating dtype's range would scale lam beyond its limit.
Samples poisson_samples(Context c, DType d) {
  Samples all = parameter_samples<1>(c, d);
  if (is_floating(d)) all.pop_back();
  return all;
}
Samples binomial_samples(Context c, DType d) {
  Samples all = samples(c, d);
  for (const int64_t n : {0, 1, 90, 120})
    for (const double p : {0., .04, .5, .7, 1.})
      all.push_back(Sample({}, with_key(RandomAttrs{.a = p, .low = n}, c, d, {20})));
  return all;
}
Samples truncated_samples(Context c, DType d) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Samples all;
  for (const auto& [lower, upper] :
       {std::pair{-kInf, kInf}, {-1., 2.}, {-.5, 1.}, {4., 4.25}, {5., 50.}, {-kInf, -3.}}) {
    const TruncatedAttrs a{.a = .25, .b = all.empty() ? 1. : 1.5, .lower = lower, .upper = upper};
    all.push_back(Sample({}, with_key(a, c, d, {51})));
  }
  all.push_back(Sample({}, with_key(TruncatedAttrs{.a = .5, .b = 0}, c, d, {3})));
  return all;
}
Sample by_table(Context c, DType d, std::vector<double> table, RandomAttrs a, const Shape& shape) {
  Sample s({array(table, {c, f64})}, with_key(a, c, d, shape));
  s.finite = {0};
  return s;
}
Samples choice_samples(Context c, DType d) {
  return {by_table(c, d, {1}, {}, {5}), by_table(c, d, {.25, .25, .75, 1}, {}, {3, 7})};
}
Samples multinomial_samples(Context c, DType d) {
  return {by_table(c, d, {.25, .5, 0, .25}, {.low = 100}, {5, 4}),
          by_table(c, d, {1, 0}, {.low = 9}, {2, 3, 2}), by_table(c, d, {.3}, {.low = 9}, {1})};
}

template <Samples (*kSamples)(Context, DType)>
void define(const char* name, std::vector<std::string> parameters = {}) {
  const int most = static_cast<int>(parameters.size());
  OpDef<RandomAttrs>(name, std::move(parameters))
      .inputs(0, most)
      .infer<&random_infer>()
      .random()
      .no_gradient("draws")
      .template samples<kSamples>();
}
template <Samples (*kSamples)(Context, DType), auto kInfer>
void define_table(const char* name) {
  OpDef<RandomAttrs>(name, {"probabilities"})
      .template infer<kInfer>()
      .random()
      .no_gradient("draws")
      .template samples<kSamples>();
}

}  // namespace

void register_random() {
  for (const char* name : {"uniform", "normal", "laplace", "randint", "bernoulli"})
    define<&samples>(name);
  define<&binomial_samples>("binomial");
  define<&parameter_samples<1>>("exponential", {"scale"});
  define<&poisson_samples>("poisson", {"lam"});
  define<&parameter_samples<2>>("random_gamma", {"shape", "scale"});
  define<&parameter_samples<2>>("beta", {"a", "b"});
  OpDef<TruncatedAttrs>("truncated_normal")
      .inputs(0)
      .infer<&truncated_infer>()
      .random()
      .no_gradient("has no inputs")
      .samples<&truncated_samples>();
  define_table<&choice_samples, &table_infer>("choice");
  define_table<&multinomial_samples, &multinomial_infer>("multinomial");
}

}  // namespace locus
