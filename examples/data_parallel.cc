// Trains one network on several contexts. Each context has a replica and a slice of the batch.
// Gradients are summed before the update, so all replicas stay equal.
//   data_parallel --model mlp --contexts "gpu(0),gpu(1)" --out out
// It times a step on one context, on two, and so on, with the same batch per context, in three
// ways: one thread for all replicas (Gluon's loop), one thread per context (parallel()), and
// compiled.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/status.h"
#include "training/models.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  std::string model = "mlp";
  int64_t batch = 256;
  int check = 20;
  double seconds = .5;
};

// A random batch for n contexts; equal each time.
struct Batch {
  Tensor images, labels;

  Batch(const Options& o, size_t n) {
    random::seed(1);
    const int64_t size = o.batch * static_cast<int64_t>(n);
    const Shape shape = o.model == "mlp" ? Shape{size, 784} : Shape{size, 1, 28, 28};
    images = random::uniform(0, 1, shape);
    labels = floor(random::uniform(0, 10, {size}));
  }
};

// The replicas of a network, with their slices of a batch.
class Replicas {
 public:
  Replicas(const Options& o, const std::vector<Context>& contexts, const Batch& batch,
           DType dtype = f32)
      : contexts_(contexts),
        net_(o.model == "mlp" ? training::mlp({256, 128}) : training::lenet()),
        xs_(split_and_load(batch.images.astype(dtype), contexts)),
        ys_(split_and_load(batch.labels, contexts)),
        size_(batch.images.shape()[0]) {
    random::seed(2);
    net_.initialize(init::Xavier(), contexts);
    net_.cast(dtype);
    net_(xs_[0]);  // infers shapes: values are drawn now, from this seed
  }

  // One thread enqueues the work of all contexts; GPUs overlap.
  void loop() { step(xs_, ys_); }

  void threads() {
    parallel(contexts_, [&](int i) {
      Tensor l;
      {
        const autograd::Record record;
        l = loss_(net_(xs_[static_cast<size_t>(i)]), ys_[static_cast<size_t>(i)]);
      }
      l.backward();
    });
    trainer_.step(size_);
  }

  void compiled() {
    Tensors in = xs_;
    in.insert(in.end(), ys_.begin(), ys_.end());
    compiled_(in);
  }

  nn::Parameters parameters() const { return net_.parameters(); }

 private:
  Tensor step(const Tensors& xs, const Tensors& ys) {
    Tensors losses;
    {
      const autograd::Record record;
      for (size_t i = 0; i < xs.size(); ++i) losses.push_back(loss_(net_(xs[i]), ys[i]));
    }
    for (const Tensor& l : losses) l.backward();
    trainer_.step(size_);  // sums the gradients, and updates each replica
    return losses[0];
  }

  std::vector<Context> contexts_;
  nn::Sequential net_;
  const nn::SoftmaxCrossEntropyLoss loss_;
  Tensors xs_, ys_;
  int64_t size_;
  nn::Trainer trainer_{net_.parameters(), optim::SGD({.learning_rate = .01})};
  nn::TrainStep compiled_{[this](const Tensors& in) {
                            const auto half = in.begin() + static_cast<ptrdiff_t>(in.size() / 2);
                            return step(Tensors(in.begin(), half), Tensors(half, in.end()));
                          },
                          trainer_};
};

struct Way {
  const char* name;
  const char* color;
  void (Replicas::*step)();
};
const Way kWays[] = {{"one thread", svg::kBlue, &Replicas::loop},
                     {"one thread per context", svg::kGreen, &Replicas::threads},
                     {"compiled", svg::kAmber, &Replicas::compiled}};

// Compares all replicas, after a few steps, with one context that has the whole batch. In f64,
// rounding does not hide a mistake.
double check(const Options& o, const Way& way, const std::vector<Context>& contexts,
             const Batch& batch) {
  Replicas all(o, contexts, batch, f64), one(o, {contexts[0]}, batch, f64);
  for (int i = 0; i < o.check; ++i) {
    (all.*way.step)();
    one.loop();
  }
  double worst = 0;
  const nn::Parameters expected = one.parameters();
  size_t k = 0;
  for (const auto& [name, p] : all.parameters()) {
    const Tensor wanted = expected[k++].second.data();
    for (const Tensor& replica : p.list_data()) {
      const double error = relative_error(replica, wanted);
      check_error(fmt::format("{}, {}, {}", way.name, name, to_string(replica.context())), error,
                  1e-9);
      worst = std::max(worst, error);
    }
  }
  return worst;
}

// In one step, between different contexts.
double bytes_moved(Replicas& replicas, const Way& way) {
  const TransferLog log;
  (replicas.*way.step)();
  wait_all();
  double bytes = 0;
  for (const TransferEntry& e : log.entries())
    if (e.kind == TransferKind::copy && e.from != e.to) bytes += static_cast<double>(e.bytes);
  return bytes;
}

struct Result {
  double seconds = 0, speed_up = 0;
};
using Results = std::vector<std::vector<Result>>;  // [way][contexts - 1]

std::string picture(const Results& results, double top, double height) {
  const auto most = static_cast<double>(results[0].size());
  double highest = most;
  for (const auto& way : results)
    for (const Result& r : way) highest = std::max(highest, r.speed_up);
  const svg::Plot plot({100, top, 520, height - 60}, {1, std::max(most, 2.)}, {0, highest});
  std::string s = svg::text(100, top - 14, "images per second, relative to one context",
                            {.color = svg::kMuted, .size = 12});
  const int step = highest > 8 ? 2 : 1;
  for (int y = 0; y <= static_cast<int>(highest); y += step)
    s += plot.line_at(y, std::to_string(y));
  svg::Points ideal;
  for (int n = 1; n <= static_cast<int>(most); ++n) {
    s += plot.tick_at(n, std::to_string(n));
    ideal.emplace_back(n, n);
  }
  s += plot.title_below("contexts, each with the same batch size");
  const svg::Plot::CurveStyle dashed{
      .color = svg::kMuted, .width = 1.5, .dots = false, .dashed = true};
  s += plot.curve(ideal, dashed);
  double y = top + 20;
  s += svg::key(660, y, "linear speed-up", dashed);
  for (size_t w = 0; w < results.size(); ++w) {
    const svg::Plot::CurveStyle style{.color = kWays[w].color};
    svg::Points points;
    for (size_t n = 0; n < results[w].size(); ++n)
      points.emplace_back(static_cast<double>(n + 1), results[w][n].speed_up);
    s += plot.curve(points, style);
    s += svg::key(660, y += 44, kWays[w].name, style);
    s += svg::text(696, y + 18,
                   fmt::format("{} per step, speed-up {:.2f}", time_text(results[w].back().seconds),
                               results[w].back().speed_up),
                   {.color = svg::kMuted, .size = 12});
  }
  return s;
}

void run(Program& program, const Options& o) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"way",
               "contexts",
               {"time per step", "seconds"},
               {"images/s", "images_per_second"},
               {"speed-up", "speed_up"},
               {"moved per step", "bytes"}});
  Results results(std::size(kWays));
  double error = 0, moved = 0;
  bool unseen_somewhere = false;
  Status status;
  for (size_t w = 0; w < std::size(kWays); ++w)
    for (size_t n = 1; n <= contexts.size(); ++n) {
      const std::vector<Context> some(contexts.begin(), contexts.begin() + ptrdiff_t(n));
      const Batch batch(o, n);
      const std::string what =
          fmt::format("{} on {}", kWays[w].name, counted(static_cast<double>(n), "context"));
      status.stage(fmt::format("{}: {} in f64, then timed ones", what,
                               counted(static_cast<double>(o.check), "step")));
      error = std::max(error, check(o, kWays[w], some, batch));
      Replicas replicas(o, some, batch);
      const auto step = [&replicas, run = kWays[w].step] { (replicas.*run)(); };
      const double seconds = measure(
                                 [&] {
                                   step();
                                   wait_all();
                                 },
                                 {.seconds = o.seconds})
                                 .median;
      const double bytes = bytes_moved(replicas, kWays[w]);
      const bool unseen = n > 1 && bytes == 0;  // TransferLog does not see sums in a replay
      unseen_somewhere = unseen_somewhere || unseen;
      if (n == contexts.size()) moved = std::max(moved, bytes);
      const double rate = static_cast<double>(o.batch) * static_cast<double>(n) / seconds;
      const double first = n == 1 ? seconds : results[w][0].seconds;
      results[w].push_back({seconds, static_cast<double>(n) * first / seconds});
      table.add({kWays[w].name, std::to_string(n), time_cell(seconds), number_cell(rate, "{:.0f}"),
                 number_cell(results[w].back().speed_up, "{:.2f}"),
                 unseen ? Cell("not counted", "")
                        : Cell{si_text(bytes, "B"), fmt::format("{:.0f}", bytes)}},
                some);
    }
  status.clear();
  fmt::print("{}\n", table.aligned());

  std::string explanation = fmt::format(
      "A step on n contexts trains on n times the images of a step on one. The speed-up compares "
      "images per second with one context in the same way. After {} in f64, the parameters of all "
      "replicas equal those of one context with the whole batch, with a relative error of at most "
      "{:.0e}. ",
      counted(static_cast<double>(o.check), "step"), error);
  if (moved > 0)
    explanation +=
        fmt::format("A step on {} moves {} between contexts: gradients and their sums. ",
                    counted(static_cast<double>(contexts.size()), "context"), si_text(moved, "B"));
  if (unseen_somewhere) explanation += "Copies within a compiled step are not counted. ";
  if (!real_gpu(contexts[0]) && !context_info(contexts[0]).modelled)
    explanation +=
        "These contexts share this machine's cores, so this run shows what replicas cost, not what "
        "they gain. ";
  constexpr double kHeight = 340;
  program.finish(table, svg::Figure{.title = fmt::format("Data parallel: {}, {} images per context",
                                                         o.model, o.batch),
                                    .subtitle = program.conditions(contexts),
                                    .body = picture(results, 110, kHeight),
                                    .explanation = explanation,
                                    .top = 98,
                                    .height = kHeight});
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  Program program("data_parallel",
                  "Trains replicas of a network on one context, on two, and so on.",
                  RunsOn::replicas);
  program.options()
      .add_option("--model", o.model, "the network: mlp or lenet")
      ->check(one_of({"mlp", "lenet"}))
      ->capture_default_str();
  program.options()
      .add_option("--batch-size", o.batch, "images per context and step")
      ->check(whole(1, int64_t{1} << 16))
      ->capture_default_str();
  program.options()
      .add_option("--check", o.check, "steps after which parameters are compared")
      ->check(whole(1, 10000))
      ->capture_default_str();
  program.options()
      .add_option("--seconds", o.seconds, "seconds that each measurement takes at least")
      ->check(number(.001, 60))
      ->capture_default_str();
  return program.run(argc, argv, [&](Program& p) { run(p, o); });
}
