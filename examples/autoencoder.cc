// Trains an autoencoder on handwritten digits. The network encodes each image in two numbers.
//   autoencoder --context "gpu(0)" --epochs 10 --out out --save autoencoder.params
// The picture shows test digits beside their reconstructions, and each class in the plane of the
// two numbers.
#include <algorithm>

#include <fmt/format.h>
#include <locus/locus.h>
#include <CLI/CLI.hpp>

#include "common/svg.h"
#include "training/classes.h"
#include "training/digits.h"
#include "training/images.h"
#include "training/models.h"
#include "training/options.h"
#include "training/plane.h"
#include "training/run.h"

using namespace locus;

namespace {

training::Options parse(int argc, char** argv) {
  training::Options o;
  o.lr = 0.002;
  o.epochs = 10;
  CLI::App app("Trains an autoencoder on handwritten digits.");
  training::add_options(app, o, training::kDigitsHelp);
  training::parse(app, argc, argv);
  return o;
}

// The reconstructions of ten digits, one of each class, and the codes of 2000.
training::Strip picture(training::Autoencoder& net, const data::Dataset& test, Context c) {
  using namespace examples::svg;
  constexpr double kSize = 58, kStep = training::kStripWidth / 10, kPlane = 420;
  training::Strip strip{"Test digits and their reconstructions", "", 0};
  const Tensor images = test.data()(Slice(0, 2000));
  const std::vector<int> labels = test.label()(Slice(0, 2000)).astype(i32).to_vector<int>();
  const Tensor codes = net.encoder(images.as_in_context(c));
  const Tensor back = net.decoder(codes).as_in_context(cpu());
  for (int digit = 0; digit < 10; ++digit) {
    const auto at = std::find(labels.begin(), labels.end(), digit);
    if (at == labels.end()) continue;
    const int64_t i = at - labels.begin();
    const double x = digit * kStep;
    strip.body += training::gray_image(images[i].to_vector<float>(), 28, 28, x, 0, kSize);
    strip.body += training::gray_image(back[i].to_vector<float>(), 28, 28, x, kSize + 8, kSize);
  }
  const double top = 2 * kSize + 60;
  strip.body +=
      text(0, top - 16, "Codes of test digits, one dot per digit", {.size = 15, .weight = 600});
  strip.body += training::draw_class_plane(codes.to_vector<float>(), labels, 0, top,
                                           training::kStripWidth, kPlane);
  strip.height = top + kPlane + training::kPlaneKeys;
  return strip;
}

int run(const training::Options& options) {
  const Context context = training::choose_context(options);
  training::check_writable(options);
  const training::Digits digits = training::load_digits(options.data, options.seed);
  random::seed(options.seed);
  training::Autoencoder net;
  net.initialize(init::Xavier(), context);
  const nn::SigmoidBinaryCrossEntropyLoss loss_fn({.from_sigmoid = true});
  nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = options.lr}));
  data::DataLoader loader(digits.train, {.batch_size = options.batch_size,
                                         .shuffle = true,
                                         .context = context,
                                         .seed = options.seed});
  data::DataLoader test_loader(digits.test, {.batch_size = 1000, .context = context});
  fmt::print(
      "data      {}: {} training and {} test images\n"
      "context   {}\n"
      "network   autoencoder 784-256-64-2-64-256-784, Xavier\n"
      "training  Adam {}, {}\n\n",
      digits.name, digits.train.size(), digits.test.size(), training::describe_contexts({context}),
      options.lr, training::describe(options));

  // The image is its own label.
  const auto train = [&](const Tensor& image, const Tensor&) {
    Tensor loss;
    {
      autograd::Record record;
      loss = loss_fn(net(image), image);
    }
    loss.backward();
    trainer.step(image.shape()[0]);
    return loss;
  };
  nn::TrainStep compiled(train, trainer);
  const auto score = [&] {
    Tensors losses;
    for (auto [image, label] : test_loader) losses.push_back(loss_fn(net(image), image));
    return training::Score{concat(losses, {.axis = 0}).mean().item<float>()};
  };
  return training::train({.program = "autoencoder",
                          .network = "Autoencoder",
                          .data = digits.name,
                          .where = training::describe_contexts({context}),
                          .net = net,
                          .trainer = trainer,
                          .loader = &loader,
                          .samples = digits.train.size(),
                          .step =
                              [&](const Tensor& image, const Tensor& label) {
                                return options.compile ? compiled(image, label)
                                                       : train(image, label);
                              },
                          .evaluate = score,
                          .strip = [&] { return picture(net, digits.test, context); }},
                         options);
}

}  // namespace

int main(int argc, char** argv) {
  const training::Options options = parse(argc, argv);
  return training::guarded("autoencoder", [&] { return run(options); });
}
