#include <locus/ops/random.h>

#include <utility>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>

namespace locus::random {

namespace {

void check_capture(const char* who) {
  capture::check(who, "numbers are drawn anew at each replay; call it before");
}

}  // namespace

Generator::Generator() : state_(std::make_shared<GeneratorState>()) {}
Generator::Generator(uint64_t seed) : Generator() {
  check_capture("random::Generator");
  state_->set({seed, 0});
}

PhiloxKey Generator::state() const { return state_->take(0); }
void Generator::set_state(PhiloxKey key) {
  check_capture("Generator::set_state");
  state_->set(key);
}

std::vector<Generator> Generator::spawn(int n) {
  if (n < 0) throw ValueError("Generator::spawn: expected n >= 0, got ", n);
  check_capture("Generator::spawn");
  const PhiloxKey from = state_->take(1);
  std::vector<Generator> all;
  for (int i = 0; i < n; ++i)
    all.emplace_back().state_->set(key_of(from, static_cast<uint64_t>(i)));
  return all;
}

Tensor Generator::uniform(double low, double high, const Shape& shape, TensorOptions options,
                          Caller from) {
  const DrawFrom scope(state_);
  return random::uniform(low, high, shape, options, from);
}
Tensor Generator::normal(double loc, double scale, const Shape& shape, TensorOptions options,
                         Caller from) {
  const DrawFrom scope(state_);
  return random::normal(loc, scale, shape, options, from);
}
Tensor Generator::truncated_normal(double lower, double upper, double mean, double std,
                                   const Shape& shape, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::truncated_normal(lower, upper, mean, std, shape, options, from);
}
Tensor Generator::laplace(double loc, double scale, const Shape& shape, TensorOptions options,
                          Caller from) {
  const DrawFrom scope(state_);
  return random::laplace(loc, scale, shape, options, from);
}
Tensor Generator::randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options,
                          Caller from) {
  const DrawFrom scope(state_);
  return random::randint(low, high, shape, options, from);
}
Tensor Generator::bernoulli(double prob, const Shape& shape, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::bernoulli(prob, shape, options, from);
}
Tensor Generator::binomial(int64_t n, double p, const Shape& size, TensorOptions options,
                           Caller from) {
  const DrawFrom scope(state_);
  return random::binomial(n, p, size, options, from);
}
Tensor Generator::exponential(const Operand& scale, const Shape& size, TensorOptions options,
                              Caller from) {
  const DrawFrom scope(state_);
  return random::exponential(scale, size, options, from);
}
Tensor Generator::exponential(const Operand& scale, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::exponential(scale, options, from);
}
Tensor Generator::gamma(const Operand& shape, const Operand& scale, const Shape& size,
                        TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::gamma(shape, scale, size, options, from);
}
Tensor Generator::gamma(const Operand& shape, const Operand& scale, TensorOptions options,
                        Caller from) {
  const DrawFrom scope(state_);
  return random::gamma(shape, scale, options, from);
}
Tensor Generator::beta(const Operand& a, const Operand& b, const Shape& size, TensorOptions options,
                       Caller from) {
  const DrawFrom scope(state_);
  return random::beta(a, b, size, options, from);
}
Tensor Generator::beta(const Operand& a, const Operand& b, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::beta(a, b, options, from);
}
Tensor Generator::poisson(const Operand& lam, const Shape& size, TensorOptions options,
                          Caller from) {
  const DrawFrom scope(state_);
  return random::poisson(lam, size, options, from);
}
Tensor Generator::poisson(const Operand& lam, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::poisson(lam, options, from);
}
Tensor Generator::multinomial(int64_t n, const std::vector<double>& pvals, const Shape& size,
                              TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::multinomial(n, pvals, size, options, from);
}
Tensor Generator::choice(int64_t n, const Shape& size, const ChoiceOptions& how,
                         TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::choice(n, size, how, options, from);
}
Tensor Generator::choice(const Tensor& x, const Shape& size, const ChoiceOptions& how,
                         Caller from) {
  const DrawFrom scope(state_);
  return random::choice(x, size, how, from);
}
Tensor Generator::permutation(int64_t n, TensorOptions options, Caller from) {
  const DrawFrom scope(state_);
  return random::permutation(n, options, from);
}
Tensor Generator::shuffle(const Tensor& x, Caller from) {
  const DrawFrom scope(state_);
  return random::shuffle(x, from);
}

}  // namespace locus::random
