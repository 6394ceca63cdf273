// Trains LeNet on handwritten digits.
//   train_lenet --context "gpu(0)" --epochs 5 --out out --save lenet.params
// The picture shows misclassified digits and the filters of the first layer. The training step and
// loop are in training/ (see train_mlp.cc).
#include <algorithm>

#include <locus/locus.h>
#include <CLI/CLI.hpp>

#include "common/svg.h"
#include "training/classes.h"
#include "training/digits.h"
#include "training/images.h"
#include "training/models.h"
#include "training/options.h"

using namespace locus;

namespace {

training::Options parse(int argc, char** argv) {
  training::Options o;
  o.lr = 0.05;
  CLI::App app("Trains LeNet on handwritten digits.");
  training::add_options(app, o, training::kDigitsHelp);
  training::add_sgd(app, o);
  training::parse(app, argc, argv);
  return o;
}

data::Dataset as_images(const data::Dataset& digits) {
  return {digits.data().reshape({digits.size(), 1, 28, 28}), digits.label()};
}

// Below the digits, the filters: dark for the largest weight of each, white for the smallest.
training::Strip picture(const training::Classifier& classifier, const data::Dataset& test,
                        const nn::Parameter& first) {
  using namespace examples::svg;
  constexpr double kSize = 36, kStep = training::kStripWidth / 20;
  training::Strip strip = training::digits_strip(classifier.net(), test, classifier.context());
  const Tensor filters = first.list_data()[0].as_in_context(cpu());
  strip.body +=
      text(0, strip.height + 24, "Filters of the first layer", {.size = 15, .weight = 600});
  for (int64_t i = 0; i < filters.shape()[0]; ++i) {
    std::vector<float> v = filters[i].to_vector<float>();
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    const float least = *low, span = std::max(*high - least, 1e-12f);
    for (float& f : v) f = (f - least) / span;
    strip.body +=
        training::gray_image(v, 5, 5, static_cast<double>(i) * kStep, strip.height + 38, kSize);
  }
  strip.height += 38 + kSize + 24;
  return strip;
}

int run(const training::Options& options) {
  training::join(options);
  training::check_writable(options);
  const training::Digits digits = training::load_digits(options.data, options.seed);
  const data::Dataset test = as_images(digits.test);
  nn::Sequential net = training::lenet();
  training::Classifier classifier({.program = "train_lenet",
                                   .network = "LeNet",
                                   .data = digits.name,
                                   .net = net,
                                   .train = as_images(digits.train),
                                   .test = test},
                                  options);
  return classifier.train([&] { return picture(classifier, test, net[0].parameter("weight")); });
}

}  // namespace

int main(int argc, char** argv) {
  const training::Options options = parse(argc, argv);
  return training::guarded("train_lenet", [&] { return run(options); });
}
