// Trains a multilayer perceptron on handwritten digits, on the context you choose.
//   train_mlp --context "gpu(0)" --hidden 256,128 --epochs 5 --out out --save mlp.params
// The training loop is at the end; what it shows and writes is in train_mlp/.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/call_chart.h"
#include "common/measure.h"
#include "train_mlp/digits.h"
#include "train_mlp/history.h"
#include "train_mlp/options.h"
#include "train_mlp/progress.h"

using namespace locus;
using namespace train_mlp;

namespace {

struct Data {
  data::Dataset train, test;
  std::string name;
};

// All four files, plain or gzipped: an unfinished download does not count.
bool has_mnist(const std::filesystem::path& folder) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const auto zipped = folder / (std::string(name) + ".gz");
    if (!std::filesystem::exists(folder / name) && !std::filesystem::exists(zipped)) return false;
  }
  return true;
}

Data load_data(const Options& options) {
  constexpr const char* kDefault = "data/mnist";
  std::string folder = options.data;
  if (folder.empty() && has_mnist(kDefault)) folder = kDefault;
  if (!folder.empty()) {
    return {data::mnist(folder, data::train), data::mnist(folder, data::test),
            "MNIST from " + folder};
  }
  return {draw_digits(20000, options.seed), draw_digits(4000, ~options.seed),
          "digits drawn by this program"};
}

// Where to run, checked: a context that is not there fails here, before anything else is done.
Context choose_context(const Options& options) {
  const Context c = options.context == "best" ? best_context() : Context::parse(options.context);
  context_info(c);
  return c;
}

std::string describe_context(Context c) { return to_string(c) + ", " + context_info(c).name; }

// Fails now rather than after the training when the results could not be written.
void check_writable(const Options& options) {
  if (!options.out.empty()) std::filesystem::create_directories(options.out);
  const std::pair<const char*, const std::string&> files[] = {
      {"--save", options.save}, {"--dot", options.dot}, {"--graph", options.graph}};
  for (const auto& [option, file] : files) {
    const auto folder = std::filesystem::path(file).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder))
      throw std::runtime_error(
          fmt::format("{} {}: there is no folder {}", option, file, folder.string()));
  }
}

nn::Sequential make_network(const Options& options) {
  nn::Sequential net;
  for (const int64_t width : options.hidden) net.add(nn::Dense(width, nn::relu));
  net.add(nn::Dense(10));
  return net;
}

std::string network_name(const Options& options) {
  std::string name = "784";
  for (const int64_t width : options.hidden) name += fmt::format("-{}", width);
  return name + "-10";
}

struct Score {
  double loss, accuracy;
};

Score evaluate(nn::Sequential& net, data::DataLoader& loader) {
  nn::SoftmaxCrossEntropyLoss loss_fn;
  metric::Accuracy accuracy;
  Tensors losses;
  for (auto [image, label] : loader) {
    Tensor scores = net(image);
    accuracy.update(label, scores);
    losses.push_back(loss_fn(scores, label));
  }
  return {concat(losses, {.axis = 0}).mean().item<float>(), accuracy.get().second};
}

// Test digits for the picture, those that the network gets wrong and is surest of among them.
std::vector<Prediction> pick_digits(nn::Sequential& net, const data::Dataset& test, Context c) {
  const Tensor images = test.data()(Slice(0, 2000));
  const int64_t n = images.shape()[0];
  const Tensor scores = softmax(net(images.as_in_context(c)));
  const std::vector<float> p = scores.to_vector<float>();
  const std::vector<int> labels = test.label()(Slice(0, n)).astype(i32).to_vector<int>();
  std::vector<Prediction> wrong, right;
  for (int64_t i = 0; i < n; ++i) {
    const auto row = p.begin() + i * 10;
    const auto best = std::max_element(row, row + 10);
    Prediction d{{}, labels[static_cast<size_t>(i)], static_cast<int>(best - row), *best};
    const bool is_right = d.label == d.guess;
    // One of each class in turn among those it gets right.
    if (is_right && (right.size() >= 11 || d.label != static_cast<int>(right.size() % 10)))
      continue;
    d.image = images[i].to_vector<float>();
    (is_right ? right : wrong).push_back(std::move(d));
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const Prediction& a, const Prediction& b) {
    return a.confidence > b.confidence;
  });
  if (wrong.size() > 4) wrong.resize(4);
  right.resize(std::min(right.size(), 11 - wrong.size()));
  right.insert(right.end(), wrong.begin(), wrong.end());
  return right;
}

void write_results(const History& history, const Options& options) {
  if (options.out.empty() || history.epochs.empty()) return;
  const std::filesystem::path out = options.out;
  write_csv(history, out / "history.csv");
  write_svg(history, out / "curves.svg");
  fmt::print("wrote {} and {}\n", (out / "history.csv").string(), (out / "curves.svg").string());
}

int run(const Options& options) {
  const Context context = choose_context(options);
  check_writable(options);
  const Data data = load_data(options);
  const int64_t n = data.train.size();

  random::seed(options.seed);
  nn::Sequential net = make_network(options);
  net.initialize(init::Xavier(), context);
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  nn::Trainer trainer(net.parameters(),
                      optim::SGD({.learning_rate = options.lr, .momentum = options.momentum}));
  data::DataLoader loader(data.train, {.batch_size = options.batch_size,
                                       .shuffle = true,
                                       .context = context,
                                       .seed = options.seed});
  data::DataLoader test_loader(data.test, {.batch_size = 1000, .context = context});
  const int64_t steps = (n + options.batch_size - 1) / options.batch_size;
  const optim::Schedule schedule =
      options.schedule == "cosine"
          ? optim::CosineScheduler({.max_update = steps * options.epochs, .base_lr = options.lr})
          : optim::ConstantScheduler({.base_lr = options.lr});

  fmt::print(
      "data      {}: {} training and {} test images\n"
      "context   {}\n"
      "network   {}, Xavier\n"
      "training  SGD {}, momentum {}, {} schedule, batch {}, seed {}{}\n\n",
      data.name, n, data.test.size(), describe_context(context), network_name(options), options.lr,
      options.momentum, options.schedule, options.batch_size, options.seed,
      options.compile ? ", compiled" : "");

  const auto train = [&](const Tensor& image, const Tensor& label) {
    Tensor loss;
    {
      autograd::Record record;
      loss = loss_fn(net(image), label);
    }
    loss.backward();
    trainer.step(image.shape()[0]);
    return loss;
  };
  nn::TrainStep compiled(train, trainer);  // the same, recorded once and replayed

  History history{network_name(options), data.name, describe_context(context), {}, {}, {}};
  Progress progress(options.epochs, n);
  LossLog losses;
  LossCurve curve(steps, options.epochs);
  int64_t step = 0;
  int saved_epoch = 0;
  std::string description, dot;
  std::vector<CompiledCall> calls;
  const auto inspect = [&] {
    if (options.describe) description = compiled.describe();
    if (!options.dot.empty()) dot = compiled.dot();
    if (!options.graph.empty()) calls = compiled.calls();
  };

  try {
    for (int epoch = 1; epoch <= options.epochs; ++epoch) {
      progress.start(epoch);
      losses.reset();
      int64_t samples = 0;
      const auto report = [&] {
        curve.add(losses.read());
        progress.show(samples, losses.mean());
      };

      for (auto [image, label] : loader) {
        trainer.set_learning_rate(schedule(step++));
        losses.add(options.compile ? compiled(image, label) : train(image, label));
        samples += image.shape()[0];
        if (losses.due()) report();
        // The last batch may be a smaller one.
        if (step == std::max<int64_t>(steps * options.epochs - 1, 1)) inspect();
      }
      if (!losses.empty()) report();
      const double seconds = progress.seconds();

      const Score test = evaluate(net, test_loader);
      if (!std::isfinite(test.loss)) throw Diverged{step, test.loss};
      history.epochs.push_back({epoch, step, losses.mean(), test.loss, test.accuracy,
                                trainer.learning_rate(), seconds, n / seconds});
      progress.finish(fmt::format(
          "epoch {}/{}  loss {:.4f}  test accuracy {:.2f} %  {:.0f} samples/s  {:.2f} s", epoch,
          options.epochs, losses.mean(), 100 * test.accuracy, n / seconds, seconds));
      if (!options.save.empty()) {
        net.save_parameters(options.save);
        saved_epoch = epoch;
      }
    }
  } catch (const Diverged& d) {
    progress.clear();
    history.losses = curve.points();
    write_results(history, options);
    const int64_t epoch = (d.step - 1) / steps + 1;
    std::cerr << fmt::format(
        "train_mlp: the loss became {} at step {} (epoch {}, batch {}); try a smaller --lr than "
        "{}\n",
        std::isnan(d.loss) ? "nan" : "inf", d.step, epoch, (d.step - 1) % steps + 1, options.lr);
    if (saved_epoch > 0) {
      std::cerr << fmt::format("train_mlp: {} holds the parameters after epoch {}\n", options.save,
                               saved_epoch);
    } else if (!options.save.empty()) {
      std::cerr << fmt::format("train_mlp: no epoch was finished, so {} was not written\n",
                               options.save);
    }
    return 1;
  }

  fmt::print("\n{}\n", table(history));
  if (options.describe) fmt::print("{}\n", description);
  const auto write = [](const std::string& file, const std::string& content) {
    examples::write_file(file, content);
    fmt::print("wrote {}\n", file);
  };
  if (!options.dot.empty()) write(options.dot, dot);
  if (!options.graph.empty())
    write(options.graph, examples::call_chart("A step of " + network_name(options) + ", compiled",
                                              examples::describe(context), calls));
  if (!options.save.empty()) fmt::print("saved the parameters in {}\n", options.save);
  history.losses = curve.points();
  if (!options.out.empty()) history.predictions = pick_digits(net, data.test, context);
  write_results(history, options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  try {
    return run(options);
  } catch (const std::exception& e) {
    std::cerr << "train_mlp: " << e.what() << '\n';
    return 1;
  }
}
