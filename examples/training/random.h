// Random numbers for drawn data: equal on every machine.
#pragma once

#include <cstdint>
#include <numbers>

namespace training {

// SplitMix64, because std distributions differ between machines.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  double normal() {  // sum of uniforms: near enough, and no logarithm whose last bit varies
    double s = 0;
    for (int i = 0; i < 6; ++i) s += uniform(-1, 1);
    return s / std::numbers::sqrt2;
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

}  // namespace training
