#include "training/classes.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/command.h"
#include "common/measure.h"
#include "common/svg.h"
#include "training/images.h"

namespace training {

using namespace locus;

namespace {

std::unique_ptr<nn::Planned> make_planned(const Classifier::Setup& setup, const Options& o) {
  if (o.plan.empty()) return nullptr;
  std::unique_ptr<nn::Planned> planned;
  examples::of_option("--plan", [&] {
    if (std::filesystem::is_directory(o.plan))
      throw Error(o.plan, ": it is a folder; expected a file");
    planned = std::make_unique<nn::Planned>(setup.net, nn::Plan::load(o.plan));
    const int64_t rest = setup.train.size() % o.batch_size;  // an epoch's last batch
    planned->plan().check_batch(rest > 0 ? rest : o.batch_size);
  });
  return planned;
}

nn::Parameters initialized(nn::Sequential& net, nn::Planned* planned, Context c, uint64_t seed) {
  random::seed(seed);
  if (planned)
    planned->initialize(init::Xavier());
  else
    net.initialize(init::Xavier(), c);
  return planned ? planned->parameters() : net.parameters();
}

// Both loaders give the same batches.
std::variant<data::DataLoader, data::Prefetcher> make_loader(const Classifier::Setup& setup,
                                                             const Options& o, Context c) {
  if (setup.workers == 0)
    return data::DataLoader(setup.train, {.batch_size = o.batch_size,
                                          .shuffle = true,
                                          .context = c,
                                          .seed = o.seed,
                                          .transform = setup.transform,
                                          .num_parts = cluster::size(),
                                          .part_index = cluster::rank()});
  return data::Prefetcher(setup.train, {.batch_size = o.batch_size,
                                        .shuffle = true,
                                        .context = c,
                                        .seed = o.seed,
                                        .num_workers = setup.workers,
                                        .transform = setup.transform,
                                        .num_parts = cluster::size(),
                                        .part_index = cluster::rank()});
}

}  // namespace

Classifier::Classifier(const Setup& setup, const Options& o)
    : setup_(setup),
      options_(o),
      planned_(make_planned(setup, o)),
      context_(planned_ ? planned_->plan().contexts()[0] : choose_context(o)),
      steps_((setup.train.size() + o.batch_size - 1) / o.batch_size * o.epochs),
      trainer_(initialized(setup.net, planned_.get(), context_, o.seed),
               optim::SGD({.learning_rate = o.lr, .momentum = o.momentum, .wd = o.wd})),
      loader_(make_loader(setup, o, context_)),
      test_loader_(setup.test, {.batch_size = 1000, .context = context_}),
      compiled_(
          [this](const Tensor& data, const Tensor& label) {
            return cluster::size() > 1 ? backward(data, label) : step(data, label);
          },
          trainer_) {
  fmt::print(
      "data      {}: {} training and {} test images\n"
      "{}   {}\n"
      "network   {}, Xavier\n"
      "training  SGD {}, momentum {}, {}\n\n",
      setup.data, setup.train.size(), setup.test.size(), planned_ ? "plan   " : "context",
      planned_ ? o.plan + ": " + planned_->plan().summary() : describe_contexts({context_}),
      setup.network, o.lr, o.momentum, describe(o));
}

Tensor Classifier::step(const Tensor& data, const Tensor& label) {
  const Tensor loss = backward(data, label);
  update(data.shape()[0]);
  return loss;
}

Tensor Classifier::backward(const Tensor& data, const Tensor& label) {
  static const nn::SoftmaxCrossEntropyLoss loss_fn;
  Tensor loss;
  {
    const amp::Scope precision(options_.dtype == "bf16" ? std::optional(bf16) : std::nullopt);
    if (planned_) return planned_->forward_backward(data, label, loss_fn);
    autograd::Record record;
    loss = loss_fn(setup_.net(data), label);
  }
  loss.backward();
  return loss;
}

void Classifier::update(int64_t batch) {
  const int64_t of_all = batch * cluster::size();
  if (options_.clip > 0) trainer_.clip_global_norm(options_.clip, of_all);
  trainer_.step(of_all);
}

nn::Block& Classifier::net() const {
  if (planned_) return *planned_;
  return setup_.net;
}

std::string Classifier::where() const {
  if (!planned_) return examples::describe(context_);
  return planned_->plan().summary() + "; " + examples::describe(planned_->plan().contexts());
}

int Classifier::train(const std::function<Strip()>& strip,
                      const std::function<void(int64_t step)>& after) {
  Run::Loader loader;
  std::visit([&](auto& l) { loader = &l; }, loader_);
  return training::train(
      {.program = setup_.program,
       .network = setup_.network,
       .data = setup_.data,
       .where = describe_contexts(planned_ ? planned_->plan().contexts() : std::vector{context_}),
       .net = net(),
       .trainer = trainer_,
       .loader = loader,
       .samples = setup_.train.size(),
       .step =
           [&](const Tensor& data, const Tensor& label) {
             if (!options_.compile) return step(data, label);
             const Tensor loss = compiled_(data, label);
             if (cluster::size() > 1) update(data.shape()[0]);
             return loss;
           },
       .evaluate = [&] { return score(); },
       .strip = strip,
       .after = after},
      options_);
}

Score Classifier::score() {
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  metric::Accuracy accuracy;
  Tensors losses;
  for (auto [data, label] : test_loader_) {
    const Tensor scores = net()(data), there = label.as_in_context(scores.context());
    accuracy.update(there, scores);
    losses.push_back(loss_fn(scores, there));
  }
  return {concat(losses, {.axis = 0}).mean().item<float>(), accuracy.get().second};
}

namespace {

struct Prediction {
  std::vector<float> image;  // 28 x 28 in [0, 1]
  int label = 0, guess = 0;
  double confidence = 0;
};

std::vector<Prediction> pick(nn::Block& net, const data::Dataset& test, Context c) {
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
    // The right answers go through the classes in turn.
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

}  // namespace

Strip digits_strip(nn::Block& net, const data::Dataset& test, Context c) {
  using namespace examples::svg;
  constexpr double kSize = 58, kGap = 21.8;
  const std::vector<Prediction> picked = pick(net, test, c);
  std::string title = "Test digits and the network's answers";
  if (std::ranges::any_of(picked, [](const Prediction& p) { return p.label != p.guess; }))
    title += ": some right ones, then the most confident wrong ones";
  Strip strip{std::move(title), "", 106};
  double x = 0;
  for (const Prediction& p : picked) {
    const bool right = p.label == p.guess;
    strip.body += gray_image(p.image, 28, 28, x, 0, kSize);
    strip.body +=
        text(x + kSize / 2, kSize + 18,
             right ? fmt::format("{}", p.guess) : fmt::format("{}, not {}", p.guess, p.label),
             {.color = right ? kGreen : kRed, .size = 13, .anchor = "middle", .weight = 700});
    strip.body += text(x + kSize / 2, kSize + 34, fmt::format("{:.0f} %", 100 * p.confidence),
                       {.color = kMuted, .size = 11, .anchor = "middle"});
    x += kSize + kGap;
  }
  return strip;
}

Strip confusion_strip(nn::Block& net, const data::Dataset& test, Context c,
                      const std::vector<std::string>& classes) {
  using namespace examples::svg;
  const size_t n = classes.size();
  std::vector<double> counts(n * n);
  for (int64_t begin = 0; begin < test.size(); begin += 1000) {
    const Slice batch(begin, std::min(begin + 1000, test.size()));
    const std::vector<int64_t> answers =
        argmax(net(test.data()(batch).as_in_context(c)), {.axis = 1})
            .astype(i64)
            .to_vector<int64_t>();
    const std::vector<int64_t> labels = test.label()(batch).astype(i64).to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i)
      ++counts[static_cast<size_t>(labels[i]) * n + static_cast<size_t>(answers[i])];
  }
  constexpr double kCell = 30, kNames = 110;
  const double wide = 720. / static_cast<double>(std::max<size_t>(n, 10));  // of a name
  Strip strip{"Test images: classes (rows) and the network's answers (columns)", "",
              kCell * static_cast<double>(n) + 60};
  for (size_t row = 0; row < n; ++row) {
    const double y = 26 + kCell * static_cast<double>(row);
    double all = 0;
    for (size_t k = 0; k < n; ++k) all += counts[row * n + k];
    strip.body += text(kNames - 10, y + 20, classes[row], {.size = 12, .anchor = "end"});
    strip.body += fmt::format(
        "<text x=\"{:.1f}\" y=\"18\" font-size=\"11\" fill=\"{}\" "
        "text-anchor=\"middle\">{}</text>\n",
        kNames + wide * (static_cast<double>(row) + .5), kMuted, classes[row]);
    for (size_t k = 0; k < n; ++k) {
      const double share = all > 0 ? counts[row * n + k] / all : 0;
      const double x = kNames + wide * static_cast<double>(k);
      strip.body += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"2\" fill=\"{}\" "
          "fill-opacity=\"{:.3f}\"/>\n",
          x, y, wide - 2, kCell - 2, row == k ? kBlue : kRed,
          share > 0 ? .12 + .88 * std::sqrt(share) : .04);
      if (counts[row * n + k] > 0)
        strip.body +=
            text(x + wide / 2 - 1, y + 19, fmt::format("{:.0f}", counts[row * n + k]),
                 {.color = share > .3 ? "#ffffff" : kInk, .size = 11, .anchor = "middle"});
    }
  }
  return strip;
}

int guarded(const std::string& program, const std::function<int()>& run) {
  try {
    const int status = run();
    examples::check_printed();
    return status;
  } catch (const std::exception& e) {
    const std::string rank =  // ranks share the terminal: one write a line
        cluster::size() > 1 ? fmt::format("rank {}: ", cluster::rank()) : "";
    std::cerr << fmt::format("{}: {}{}\n", program, rank, e.what());
    return 1;
  }
}

}  // namespace training
