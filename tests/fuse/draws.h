// Random numbers for random functions, the seeds to try, and gradients of functions.
#pragma once

#include <cstdlib>
#include <random>
#include <sstream>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/dtype.h>
#include <locus/core/memory/storage.h>
#include <locus/core/tensor.h>

namespace locus::test {

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  float real() { return std::uniform_real_distribution<float>(-3, 3)(engine_); }

 private:
  std::mt19937 engine_;
};

// TEST_FUSE_SEEDS=FIRST,COUNT tries others.
inline std::pair<unsigned, unsigned> seeds(unsigned count) {
  const char* const text = std::getenv("TEST_FUSE_SEEDS");
  if (!text) return {1, count};
  char comma;
  std::pair<unsigned, unsigned> given;
  std::istringstream(text) >> given.first >> comma >> given.second;
  return given;
}

// The gradients of f's floating-point results for `in`; none if it has no such results.
template <class F>
Tensors gradients_of(const F& f, const Tensors& in) {
  Tensors leaves;
  for (const Tensor& t : in) {
    leaves.push_back(alias(t, t.impl().view));
    leaves.back().attach_grad();
  }
  Tensors out, heads;
  {
    const autograd::Record record;
    out = f(leaves);
  }
  for (const Tensor& t : out)
    if (is_floating(t.dtype())) heads.push_back(t);
  return heads.empty() ? Tensors() : autograd::grad(heads, leaves, {.allow_unused = true});
}

}  // namespace locus::test
