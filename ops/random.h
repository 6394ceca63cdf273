// Random numbers from Philox 4x32-10 (core/generator.h).
//
//   const Tensor noise = random::normal(0, 1, {2, 3}, {gpu(0)});
//   random::Generator rng(42);
//   const Tensor waits = rng.exponential(2, {1000});
//
// The same seed and the same calls give the same bits on every context, for any instruction set and
// number of threads. random::seed() is in core/generator.h. There are no gradients.
//
// The default context is current_context(). The default dtype is i32 for randint (MXNet), i64 for
// permutation, poisson, binomial, multinomial and choice (NumPy), and f32 for other functions.
// Invalid bounds and parameters are a ValueError, unsupported dtypes a DTypeError.
#pragma once

#include <locus/core/generator.h>
#include <locus/core/tensor.h>
#include <locus/ops/operand.h>
#include <locus/ops/register.h>

namespace locus::random {

// Floating numbers in [low, high), never high. A draw is low + (high - low) u, rounded to a number
// of the dtype inside the interval. u is a multiple of 2^-24 (f32), 2^-53 (f64), 2^-11 (f16) or
// 2^-8 (bf16) in [0, 1). If low == high, all numbers are low. If the dtype has no number in the
// interval, uniform throws ValueError.
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// Normal numbers of floating dtypes, mean `loc`, standard deviation `scale`: Box and Muller's
// transform in f64. If the dtype cannot hold loc or scale, normal throws ValueError. Numbers drawn
// beyond the dtype's range are infinite.
Tensor normal(double loc, double scale, const Shape& shape, TensorOptions options = {},
              Caller = Caller::here());
// Normal numbers in [lower, upper], of mean `mean` and standard deviation `std` before truncation.
// The bounds may be infinite. If std == 0, all numbers are the mean. If std == 0 and the mean lies
// outside the bounds, truncated_normal throws ValueError.
Tensor truncated_normal(double lower, double upper, double mean, double std, const Shape& shape,
                        TensorOptions options = {}, Caller = Caller::here());
// Density exp(-|x - loc| / scale) / (2 scale).
Tensor laplace(double loc, double scale, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// Integers in [low, high), of an integer dtype that holds them. All are equally likely, up to a
// relative error of (high - low) / 2^64.
Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
               Caller = Caller::here());
// 1 with probability `prob`, else 0. Any dtype.
Tensor bernoulli(double prob, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());
// The number of successes in n independent tries, each with probability p. 0 <= n <= 2^53. Any
// numeric dtype that holds n.
Tensor binomial(int64_t n, double p, const Shape& size, TensorOptions options = {},
                Caller = Caller::here());

// Parameters of the next four functions are numbers, or tensors that broadcast to `size`. Without
// `size`, the result has the shape that the parameters broadcast to. If a parameter is a tensor,
// the result lies on its context. The default dtype is that of the floating tensors among the
// parameters, else f32; for poisson it is always i64. Parameters are read in f64;
// above 1e300 they are not valid. A bad element is a ValueError: on the CPU at the call, on a GPU
// at the next wait. Drawn numbers above the dtype's range become infinite, or the largest integer.

// Density exp(-x / scale) / scale. scale >= 0.
Tensor exponential(const Operand& scale, const Shape& size, TensorOptions options = {},
                   Caller = Caller::here());
Tensor exponential(const Operand& scale, TensorOptions options = {}, Caller = Caller::here());
// Density proportional to x^(shape - 1) exp(-x / scale). shape >= 0, scale >= 0. If the shape is 0,
// all numbers are 0.
Tensor gamma(const Operand& shape, const Operand& scale, const Shape& size,
             TensorOptions options = {}, Caller = Caller::here());
Tensor gamma(const Operand& shape, const Operand& scale, TensorOptions options = {},
             Caller = Caller::here());
// Density proportional to x^(a - 1) (1 - x)^(b - 1). a > 0, b > 0.
Tensor beta(const Operand& a, const Operand& b, const Shape& size, TensorOptions options = {},
            Caller = Caller::here());
Tensor beta(const Operand& a, const Operand& b, TensorOptions options = {},
            Caller = Caller::here());
// The Poisson distribution with mean lam. 0 <= lam <= 2^62. Any numeric dtype that holds lam.
Tensor poisson(const Operand& lam, const Shape& size, TensorOptions options = {},
               Caller = Caller::here());
Tensor poisson(const Operand& lam, TensorOptions options = {}, Caller = Caller::here());

// How often n draws give each of k categories with probabilities `pvals`: shape size + (k,), each
// row sums to n. The probability of the last category is 1 minus the sum of the others, as in
// NumPy, whatever the last element of pvals is. The call copies pvals from the host to the context.
Tensor multinomial(int64_t n, const std::vector<double>& pvals, const Shape& size = {},
                   TensorOptions options = {}, Caller = Caller::here());

struct ChoiceOptions {
  bool replace = true;         // whether an entry may be drawn twice
  std::vector<double> p = {};  // a probability for each entry; empty: equal probabilities
};
// Positions 0 ... n-1, drawn at random. Dtypes: i64 or i32. With replacement, the call copies p to
// the context. Without replacement, the order is random, too; the numbers are drawn on the host and
// copied to the context.
Tensor choice(int64_t n, const Shape& size, const ChoiceOptions& how = {},
              TensorOptions options = {}, Caller = Caller::here());
// Random rows of x (entries along axis 0), of shape size + x.shape()[1:].
Tensor choice(const Tensor& x, const Shape& size, const ChoiceOptions& how = {},
              Caller = Caller::here());

// The integers 0 ... n-1 in random order. If the dtype does not hold all integers (f16: n > 2049),
// permutation throws DTypeError. The integers are drawn on the host and copied to the context.
Tensor permutation(int64_t n, TensorOptions options = {}, Caller = Caller::here());
// A copy of x with the entries along axis 0 in random order. x stays as it is; NumPy's shuffle
// changes x itself.
Tensor shuffle(const Tensor& x, Caller = Caller::here());

// A generator with its own sequence, as NumPy's default_rng(seed). Generator(7).uniform(...) gives
// what random::uniform(...) gives after random::seed(7). Copies share one sequence, as Tensors
// share memory. If a draw is part of a compiled function or a capture, each replay draws new
// numbers from this generator.
//
// Threads may share a generator, but the order of their draws may differ from run to run. For
// repeatable runs, give each thread its own generator, from spawn().
class Generator {
 public:
  Generator();  // a seed from the operating system's entropy
  explicit Generator(uint64_t seed);

  // Where the next draw starts, to resume the sequence.
  PhiloxKey state() const;
  void set_state(PhiloxKey key);
  // n new generators, whose seeds derive from this generator's state. Advances the state.
  std::vector<Generator> spawn(int n);

  Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());
  Tensor normal(double loc, double scale, const Shape& shape, TensorOptions options = {},
                Caller = Caller::here());
  Tensor truncated_normal(double lower, double upper, double mean, double std, const Shape& shape,
                          TensorOptions options = {}, Caller = Caller::here());
  Tensor laplace(double loc, double scale, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());
  Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
                 Caller = Caller::here());
  Tensor bernoulli(double prob, const Shape& shape, TensorOptions options = {},
                   Caller = Caller::here());
  Tensor binomial(int64_t n, double p, const Shape& size, TensorOptions options = {},
                  Caller = Caller::here());
  Tensor exponential(const Operand& scale, const Shape& size, TensorOptions options = {},
                     Caller = Caller::here());
  Tensor exponential(const Operand& scale, TensorOptions options = {}, Caller = Caller::here());
  Tensor gamma(const Operand& shape, const Operand& scale, const Shape& size,
               TensorOptions options = {}, Caller = Caller::here());
  Tensor gamma(const Operand& shape, const Operand& scale, TensorOptions options = {},
               Caller = Caller::here());
  Tensor beta(const Operand& a, const Operand& b, const Shape& size, TensorOptions options = {},
              Caller = Caller::here());
  Tensor beta(const Operand& a, const Operand& b, TensorOptions options = {},
              Caller = Caller::here());
  Tensor poisson(const Operand& lam, const Shape& size, TensorOptions options = {},
                 Caller = Caller::here());
  Tensor poisson(const Operand& lam, TensorOptions options = {}, Caller = Caller::here());
  Tensor multinomial(int64_t n, const std::vector<double>& pvals, const Shape& size = {},
                     TensorOptions options = {}, Caller = Caller::here());
  Tensor choice(int64_t n, const Shape& size, const ChoiceOptions& how = {},
                TensorOptions options = {}, Caller = Caller::here());
  Tensor choice(const Tensor& x, const Shape& size, const ChoiceOptions& how = {},
                Caller = Caller::here());
  Tensor permutation(int64_t n, TensorOptions options = {}, Caller = Caller::here());
  Tensor shuffle(const Tensor& x, Caller = Caller::here());

 private:
  std::shared_ptr<GeneratorState> state_;
};

}  // namespace locus::random
