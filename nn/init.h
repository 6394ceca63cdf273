// Initializers draw a parameter's first values.
//
//   net.initialize(init::Xavier({.magnitude = 2}), gpu(0));
//
// An Initializer is a value: the base class holds all state, so copies never slice. A Parameter of
// unknown shape keeps a copy.
//
// Values are drawn on cpu(0) from the process's generator (random::seed) and then copied. A network
// therefore starts with the same numbers on every context. A scale, sigma or magnitude that is
// negative, NaN or infinite is a ValueError.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::init {

// An Initializer calls fill(shape, dtype), which returns a new tensor on cpu(0).
class Initializer {
 public:
  using Fill = std::function<Tensor(const Shape&, DType)>;
  // ValueError for an empty fill.
  Initializer(std::string name, Fill fill);
  // A move copies: every initializer must keep its fill.
  Initializer(const Initializer&) = default;
  Initializer& operator=(const Initializer&) = default;
  // Copies are equal. Initializers below are equal if name and options are equal.
  bool operator==(const Initializer& other) const;

  const std::string& name() const { return name_; }
  // ShapeError if fill returns another shape.
  Tensor operator()(const Shape& shape, DType dtype) const;

 protected:
  Initializer(std::string name, std::vector<double> options, Fill fill);

 private:
  std::string name_;
  std::optional<std::vector<double>> options_;
  std::shared_ptr<const Fill> fill_;
};

// Uniform in [-scale, scale), Gluon's default.
struct Uniform : Initializer {
  explicit Uniform(double scale = 0.07);
};
// Gaussian with mean 0 and standard deviation sigma.
struct Normal : Initializer {
  explicit Normal(double sigma = 0.01);
};

enum class RandomType : uint8_t { uniform, gaussian };
enum class FactorType : uint8_t { avg, in, out };
struct XavierOptions {
  RandomType rnd_type = RandomType::uniform;
  FactorType factor_type = FactorType::avg;
  double magnitude = 3;
};
// Uniform or Gaussian with scale sqrt(magnitude / factor) (Glorot and Bengio, 2010). The factor is
// the fan-in, the fan-out or their mean. For a weight (out, in, ...) the fans are in and out, each
// times the remaining lengths. ShapeError for fewer than two axes.
struct Xavier : Initializer {
  explicit Xavier(const XavierOptions& options = {});
};

struct MSRAPreluOptions {
  FactorType factor_type = FactorType::avg;
  double slope = 0.25;  // of the leaky ReLU that follows; 0 for ReLU
};
// Xavier's Gaussian with magnitude 2 / (1 + slope^2) (He et al., 2015).
struct MSRAPrelu : Initializer {
  explicit MSRAPrelu(const MSRAPreluOptions& options = {});
};

struct OrthogonalOptions {
  double scale = 1.414;
  RandomType rand_type = RandomType::uniform;  // of the initial random matrix
};
// scale times a random matrix (out, in * ...) with orthonormal rows, or with orthonormal columns if
// it has more rows (Saxe et al., 2013). Computed in f64. ShapeError for fewer than two axes.
struct Orthogonal : Initializer {
  explicit Orthogonal(const OrthogonalOptions& options = {});
};

// Kernels (out, in, height, width) for transposed convolutions that upsample linearly by stride f.
// Kernel lengths are 2 f - f % 2; padding is (f - 1) / 2 rounded up. Height and width have separate
// ramps (MXNet uses the width's). ShapeError unless there are four axes.
struct Bilinear : Initializer {
  Bilinear();
};

// For the bias (4 * units) of an LSTM: forget_bias for the second gate, 0 for the other gates.
// ShapeError if the length is no multiple of four.
struct LSTMBias : Initializer {
  explicit LSTMBias(double forget_bias = 1);
};

struct Constant : Initializer {
  explicit Constant(double value);
};
struct Zero : Initializer {
  Zero();
};
struct One : Initializer {
  One();
};

}  // namespace locus::init
