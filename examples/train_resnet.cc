// Trains a residual network on small color images.
//   train_resnet --context "gpu(0)" --epochs 5 --out out --save resnet20.params
// The picture shows which classes are confused. The training step and loop are in training/ (see
// train_mlp.cc).
#include <fmt/format.h>
#include <locus/locus.h>
#include <CLI/CLI.hpp>

#include "common/command.h"
#include "training/classes.h"
#include "training/models.h"
#include "training/options.h"
#include "training/shapes.h"

using namespace locus;

namespace {

struct Options : training::Options {
  int blocks = 3, workers = 0;
  bool augment = false;
};

Options parse(int argc, char** argv) {
  Options o;
  o.lr = 0.05;
  o.wd = 1e-4;
  CLI::App app("Trains a residual network on small color images.");
  training::add_options(app, o,
                        "folder with CIFAR-10's binary files (default: data/cifar-10-batches-bin "
                        "when it is there, else shapes drawn by this program)");
  training::add_sgd(app, o);
  app.add_option("--blocks", o.blocks, "residual blocks of each width; 3: ResNet-20")
      ->check(examples::whole(1, 200))
      ->capture_default_str();
  CLI::Option* const augment = app.add_flag(
      "--augment", o.augment, "shift images by up to 4 pixels and mirror them, at random");
  app.add_option("--workers", o.workers,
                 "host threads that augment images ahead of the training; 0: the context augments")
      ->check(examples::whole(0, 256))
      ->needs(augment)
      ->capture_default_str();
  training::parse(app, argc, argv);
  return o;
}

int run(const Options& options) {
  training::join(options);
  if (options.compile && cluster::size() > 1)
    throw Error(
        "--compile: BatchNorm is synchronised over the ranks of --distributed, which is "
        "not recorded; leave one of the two out");
  training::check_writable(options);
  const training::Images images = training::load_images(options.data, options.seed);
  nn::Sequential net = training::resnet(options.blocks, options.distributed);
  data::Transform transform;
  if (options.augment)
    transform =
        data::transforms::Compose({data::transforms::RandomCrop(training::kShapeSide, {.pad = 4}),
                                   data::transforms::RandomFlipLeftRight()});
  training::Classifier classifier({.program = "train_resnet",
                                   .network = fmt::format("ResNet-{}", 6 * options.blocks + 2),
                                   .data = images.name,
                                   .net = net,
                                   .train = images.train,
                                   .test = images.test,
                                   .transform = transform,
                                   .workers = options.workers},
                                  options);
  return classifier.train([&] {
    return training::confusion_strip(classifier.net(), images.test, classifier.context(),
                                     images.classes);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  return training::guarded("train_resnet", [&] { return run(options); });
}
