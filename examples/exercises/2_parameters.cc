// Exercise 2: reading and writing the parameters of a network on a GPU. What stays on the GPU, what
// crosses to or from the host, and what is in a file?
//   2_parameters
// It checks and prints each step with a layer of three weights. Then it times the same actions on 4
// MiB of weights.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

using Values = std::vector<float>;

std::string to_text(const Tensor& x) {
  std::ostringstream s;
  s << x;
  return s.str();
}

class Walk {
 public:
  // Prints the action and the weight after it. Throws if the weight is not `expected`.
  void show(const std::string& action, const Tensor& weight, const Values& expected) {
    if (weight.to_vector<float>() != expected)
      throw std::runtime_error(fmt::format("{}: the weight is {}; expected {}", action,
                                           to_text(weight),
                                           to_text(array(expected, weight.shape()))));
    show(action, weight);
  }
  // Prints an action whose result was checked before.
  void show(const std::string& action, const Tensor& x) {
    fmt::print("{}\n{}\n\n", action, to_text(x));
    ++checks_;
  }
  // Expects an Error, and prints it.
  template <class F>
  void refuse(const std::string& action, F&& f) {
    try {
      f();
    } catch (const Error& e) {
      print_text(fmt::format("{}\nis refused: {}\n\n", action, e.what()));
      ++checks_;
      return;
    }
    throw std::runtime_error(action + " was not refused");
  }
  int checks() const { return checks_; }

 private:
  int checks_ = 0;
};

// Removes its file at the end.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() / fmt::format("2_parameters-{}", now())) {}
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_; }

 private:
  std::string path_;
};

void train_step(nn::Sequential& net, nn::Trainer& trainer, const Tensor& x) {
  Tensor y;
  {
    autograd::Record record;
    y = net(x).sum();
  }
  y.backward();
  trainer.step(1);
}

// Checks the weight's initial values and y = net(x) for x all ones.
void check_initialized(const Tensor& weight, const Tensor& y) {
  if (weight.shape() != Shape{1, 3} || y.shape() != Shape{2, 1})
    throw std::runtime_error("the weight is not 1 x 3 or net(x) not 2 x 1");
  float sum = 0;
  for (const float w : weight.to_vector<float>()) {
    if (!(std::abs(w) <= 0.07F))
      throw std::runtime_error(fmt::format("a weight is {}; initialized up to 0.07", w));
    sum += w;
  }
  for (const float v : y.to_vector<float>()) {
    if (!(std::abs(v - sum) <= 1e-6F))
      throw std::runtime_error(fmt::format("net(x) has {}; the weights sum to {}", v, sum));
  }
}

// `other`: a context without the parameters.
void walk_through(Walk& walk, Context c, Context other) {
  nn::Sequential net;
  net.add(nn::Dense(1));
  net.initialize(c);
  const Tensor x = ones({2, 3}, c);
  const Tensor y = net(x);  // infers the input width
  const nn::Parameter weight = net[0].parameter("weight");
  check_initialized(weight.data(), y);
  walk.show("net[0].parameter(\"weight\").data(): as initialized, none beyond 0.07", weight.data());
  walk.show("net(x), x all ones: each row is the sum of the weights", y);

  weight.set_data(array({{1.f, 2.f, 3.f}}, c));
  walk.show("weight.set_data(array({{1, 2, 3}}, c)): written on its own context", weight.data(),
            {1, 2, 3});
  weight.set_data(array({{4.f, 5.f, 6.f}}, other));
  walk.show("weight.set_data(array({{4, 5, 6}}, other)): copied from the other context",
            weight.data(), {4, 5, 6});
  weight.data()(Slice()) = 0.5;
  walk.show("weight.data()(Slice()) = 0.5: written in place", weight.data(), {.5f, .5f, .5f});
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.25}));
  train_step(net, trainer, x);
  walk.show("weight.grad() after backward: each weight saw two ones", weight.grad(), {2, 2, 2});
  walk.show("after trainer.step(1) with learning rate 0.25", weight.data(), {0, 0, 0});

  weight.set_data(array({{.1f, .2f, .3f}}, c));
  const Values saved = weight.data().to_vector<float>();
  const TemporaryFile file;
  net.save_parameters(file.path());
  weight.data()(Slice()) = 9;
  net.load_parameters(file.path(), c);
  walk.show("load_parameters(file, c): bit for bit what was saved", weight.data(), saved);
  net.load_parameters(file.path(), other);
  walk.show("load_parameters(file, other): the parameters move there", weight.data(), saved);
  walk.refuse("weight.data(c), which has no replica any more", [&] { weight.data(c); });
  walk.refuse("net(x) with x on c and the parameters on the other", [&] { net(x); });
  net.load_parameters(file.path(), c);
  walk.refuse("weight.data()(Slice()) = a tensor on the other context", [&] {
    weight.data()(Slice()) = ones({1, 3}, other);
  });
}

enum class Crosses : uint8_t { no, to_host, from_host };

struct Action {
  std::string name;
  Crosses crosses;
  bool file;
  Timing timing = {};
};

std::string crosses_text(const Action& a, Context c) {
  if (is_host(c) || a.crosses == Crosses::no) return "no";
  return a.crosses == Crosses::to_host ? "to host" : "from host";
}
const char* color_of(const Action& a, Context c) {
  if (a.file) return svg::kMuted;
  return is_host(c) || a.crosses == Crosses::no ? svg::kBlue : svg::kAmber;
}

std::vector<Action> time_actions(Context c, int64_t n) {
  nn::Sequential net;
  net.add(nn::Dense(n, {}, {.use_bias = false}));
  net.initialize(c);
  const Tensor x = ones({1, n}, c);
  net(x);
  const nn::Parameter weight = net[0].parameter("weight");
  const Tensor near = random::uniform(-1, 1, {n, n}, c), far = near.copyto(cpu());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.01}));
  const TemporaryFile file;
  net.save_parameters(file.path());
  std::vector<Action> list;
  const auto add = [&](const std::string& name, Crosses crosses, const std::function<void()>& f,
                       bool in_file = false) {
    const auto waited = [&] {
      f();
      weight.data().wait_to_read();
    };
    list.push_back({name, crosses, in_file, measure(waited)});
  };
  const auto no = Crosses::no, to_host = Crosses::to_host, from_host = Crosses::from_host;
  add("data()(Slice()) = 0.5", no, [&] { weight.data()(Slice()) = 0.5; });
  add("set_data(from the same context)", no, [&] { weight.set_data(near); });
  add("forward, backward, Trainer step", no, [&] { train_step(net, trainer, x); });
  add("read one: data()(0, 0).item()", to_host, [&] { weight.data()(0, 0).item<float>(); });
  add("set_data(from cpu(0))", from_host, [&] { weight.set_data(far); });
  add("read all: data().to_vector()", to_host, [&] { weight.data().to_vector<float>(); });
  add(
      "save_parameters", to_host, [&] { net.save_parameters(file.path()); }, true);
  add(
      "load_parameters", from_host, [&] { net.load_parameters(file.path(), c); }, true);
  return list;
}

std::string explain(const std::vector<Action>& list, Context c, double mebibytes) {
  const Timing &fill = list[0].timing, &near = list[1].timing, &one = list[3].timing,
               &far = list[4].timing, &all = list[5].timing;
  const double ratio = far.median / near.median;
  if (is_host(c))
    return fmt::format(
        "The parameters are on {}, so nothing crosses to another memory. {} shows what a transfer "
        "costs.",
        to_string(c),
        num_gpus() > 0 ? "--context \"gpu(0)\""
                       : "A GPU, or an emulated GPU with modelled times (LOCUS_EMULATED_GPUS=1 "
                         "LOCUS_EMULATED_LINK=\"h2d=4,d2h=4\"),");
  std::string s = fmt::format(
      "{:.2f} MiB of parameters take {} to fill on {}, and {} to copy there. A copy from the CPU "
      "takes {}{}. Reading all of them takes {}, reading one takes {}. ",
      mebibytes, time_text(fill.median), to_string(c), time_text(near.median),
      time_text(far.median),
      differ(far, near) ? fmt::format(", {:.1f} times as long", ratio)
                        : ", no difference beyond the spread",
      time_text(all.median), time_text(one.median));
  const auto slower = [&](const Timing& t) {
    return t.median > 1.2 * near.median && differ(t, near);
  };
  if (slower(far) && slower(all))
    return s + fmt::format(
                   "Transfers in both directions cost more than a copy on {0}. Therefore training "
                   "keeps the parameters on {0}, and reads them to save them, not in the loop.",
                   to_string(c));
  return s + fmt::format(
                 "In this run the transfers are not both slower than a copy on {}, so it cannot "
                 "show why training keeps the parameters there.",
                 to_string(c));
}

void run(const Program& program, int64_t n) {
  const Context c = program.context(), other = is_host(c) ? cpu(c.index + 1) : cpu(0);
  program.print_machine({c});
  fmt::print("c is {}, the other context {}.\n\n", to_string(c), to_string(other));
  Walk walk;
  walk_through(walk, c, other);

  const double mebibytes = static_cast<double>(n * n) * 4 / (1 << 20);
  const std::vector<Action> actions = time_actions(c, n);
  Table table({"action", {"time", "seconds"}, {"crosses", "crosses"}, "file"});
  std::vector<svg::Bar> bars;
  for (const Action& a : actions) {
    const double seconds = a.timing.median;
    table.add({a.name, time_cell(seconds), crosses_text(a, c), yes_no(a.file)}, c);
    bars.push_back({a.name, seconds, time_text(seconds), color_of(a, c)});
  }
  fmt::print("{} steps as expected. With {:.2f} MiB of weights:\n\n{}\n", walk.checks(), mebibytes,
             table.aligned());
  program.finish(
      table,
      Program::Bars{
          .title =
              fmt::format("Parameters on {}: {:.2f} MiB written and read", to_string(c), mebibytes),
          .list = {c},
          .label_width = 230,
          .bars = bars,
          .explanation = (is_host(c) ? "Blue: in memory. "
                                     : "Blue: stays on the context. Brown: crosses to or from "
                                       "the host. ") +
                         std::string("Grey: uses a file. The scale is logarithmic.\n") +
                         explain(actions, c, mebibytes),
          .logarithmic = true});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 1024;
  Program program("2_parameters", "Reading and writing a network's parameters on a GPU.",
                  RunsOn::one);
  program.options()
      .add_option("--n", n, "rows and columns of the weights that are timed")
      ->check(whole(1, 16384))
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
