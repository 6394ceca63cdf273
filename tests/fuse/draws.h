// Random numbers for random functions, and the seeds to try.
#pragma once

#include <cstdlib>
#include <random>
#include <sstream>
#include <utility>

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

}  // namespace locus::test
