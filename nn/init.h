// Initializers: how a parameter's first values are drawn. A value type: everything is in the base,
// so a copy (a Parameter whose shape is not known yet keeps one) never slices.
//
// Values are always drawn on cpu(0) from the process's generator (random::seed), then copied, so a
// network starts with the same numbers on every context. An option that is negative, NaN or
// infinite is a ValueError that names it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::init {

// fill(shape, dtype) returns a new tensor on cpu(0).
class Initializer {
 public:
  using Fill = std::function<Tensor(const Shape&, DType)>;
  // ValueError for an empty fill.
  Initializer(std::string name, Fill fill);
  // No moves: none is left without a fill.
  Initializer(const Initializer&) = default;
  Initializer& operator=(const Initializer&) = default;
  // Copies are equal, and so are those below that have one name and equal options.
  bool operator==(const Initializer& other) const;

  const std::string& name() const { return name_; }
  // ShapeError where fill gives another shape.
  Tensor operator()(const Shape& shape, DType dtype) const;

 protected:
  Initializer(std::string name, std::vector<double> options, Fill fill);

 private:
  std::string name_;
  std::optional<std::vector<double>> options_;
  std::shared_ptr<const Fill> fill_;
};

// Uniform in [-scale, scale). Gluon's default.
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
// Scale sqrt(magnitude / factor), where factor is the fan-in, the fan-out or their mean (Glorot and
// Bengio, 2010). For a weight (out, in, ...) the fans are in and out times the remaining lengths.
// Throws ShapeError for fewer than two axes.
struct Xavier : Initializer {
  explicit Xavier(const XavierOptions& options = {});
};

struct MSRAPreluOptions {
  FactorType factor_type = FactorType::avg;
  double slope = 0.25;  // of the leaky ReLU that follows; 0 for a plain one
};
// Xavier's Gaussian with magnitude 2 / (1 + slope^2) (He et al., 2015).
struct MSRAPrelu : Initializer {
  explicit MSRAPrelu(const MSRAPreluOptions& options = {});
};

struct OrthogonalOptions {
  double scale = 1.414;
  RandomType rand_type = RandomType::uniform;  // of the matrix that is made orthogonal
};
// scale times a random matrix (out, in * ...) with orthonormal rows, or columns where there are
// more rows (Saxe et al., 2013). Computed in f64. Throws ShapeError for fewer than two axes.
struct Orthogonal : Initializer {
  explicit Orthogonal(const OrthogonalOptions& options = {});
};

// The kernels (out, in, height, width) with which a transposed convolution of stride f upsamples
// linearly, for lengths 2 f - f % 2, padded by (f - 1) / 2 rounded up. Each length has a ramp of
// its own (MXNet: the width's). Throws ShapeError for another number of axes.
struct Bilinear : Initializer {
  Bilinear();
};

// For the bias (4 * units) of an LSTM: forget_bias for the second gate's, 0 for the others'. Throws
// ShapeError for a length that has no four parts.
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
