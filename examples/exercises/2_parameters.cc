// Exercise 2: reading and writing the parameters of a network on a GPU. First a layer with three
// weights, step by step, everything printed and checked; then the same actions on 4 MiB of weights,
// timed: what stays on the GPU, and what crosses to the host?
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

using Values = std::vector<float>;

struct Check {
  std::string action, result;
};

std::string to_text(const Tensor& x) {
  std::ostringstream s;
  s << x;
  return s.str();
}

class Walk {
 public:
  // Prints the action with what the weight is afterwards, and throws when it is not `expected`.
  void show(const std::string& action, const Tensor& weight, const Values& expected) {
    if (weight.to_vector<float>() != expected)
      throw std::runtime_error(fmt::format("{}: the weight is {}; expected {}", action,
                                           to_text(weight),
                                           to_text(array(expected, weight.shape()))));
    fmt::print("{}\n{}\n\n", action, to_text(weight));
    checks_.push_back({action, "as expected"});
  }
  // Runs what must be refused, and prints the error.
  template <class F>
  void refuse(const std::string& action, F&& f) {
    try {
      f();
    } catch (const Error& e) {
      fmt::print("{}\nis refused: {}\n\n", action, e.what());
      checks_.push_back({action, "refused"});
      return;
    }
    throw std::runtime_error(action + " was not refused");
  }
  const std::vector<Check>& checks() const { return checks_; }

 private:
  std::vector<Check> checks_;
};

// A file that is gone at the end.
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

// `other`: a context the parameters are not on.
void walk_through(Walk& walk, Context c, Context other) {
  nn::Sequential net;
  net.add(nn::Dense(1));
  net.initialize(c);
  const Tensor x = ones({2, 3}, c);
  net(x);  // the input width is known from here on
  const nn::Parameter weight = net[0].parameter("weight");
  walk.show("net[0].parameter(\"weight\").data()", weight.data(), weight.data().to_vector<float>());

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

struct Action {
  std::string name;
  bool crosses;  // between the host and the device
  double seconds = 0;
};

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
  const auto add = [&](const std::string& name, bool crosses, const std::function<void()>& f) {
    const auto waited = [&] {
      f();
      weight.data().wait_to_read();
    };
    list.push_back({name, crosses, measure(waited).median});
  };
  add("data()(Slice()) = 0.5", false, [&] { weight.data()(Slice()) = 0.5; });
  add("set_data(from the same context)", false, [&] { weight.set_data(near); });
  add("forward, backward, Trainer step", false, [&] { train_step(net, trainer, x); });
  add("read one: data()(0, 0).item()", true, [&] { weight.data()(0, 0).item<float>(); });
  add("set_data(from cpu(0))", true, [&] { weight.set_data(far); });
  add("read all: data().to_vector()", true, [&] { weight.data().to_vector<float>(); });
  add("save_parameters", true, [&] { net.save_parameters(file.path()); });
  add("load_parameters", true, [&] { net.load_parameters(file.path(), c); });
  return list;
}

std::string explain(const std::vector<Action>& list, Context c, double mebibytes) {
  const double fill = list[0].seconds, near = list[1].seconds, one = list[3].seconds,
               far = list[4].seconds, all = list[5].seconds;
  if (is_host(c))
    return fmt::format(
        "The parameters are on {}: nothing crosses to another memory, and reading and writing "
        "differ only by what is copied. This run cannot show what a transfer costs; a GPU, or "
        "LOCUS_EMULATED_GPUS=1 with the times of LOCUS_EMULATED_LINK, can.",
        to_string(c));
  return fmt::format(
      "Written where they are, {:.0f} MiB of parameters take {} to fill and {} to copy; from the "
      "CPU it is {}, {:.1f} times the copy. Reading all of them back takes {}, one of them still "
      "{}: the price of a wait. So training keeps parameters on {} and reads them to save, "
      "not in the loop.",
      mebibytes, time_text(fill), time_text(near), time_text(far), far / near, time_text(all),
      time_text(one), to_string(c));
}

void run(const Program& program, int64_t n) {
  const Context c = program.context(), other = is_host(c) ? cpu(c.index + 1) : cpu(0);
  program.print_machine({c});
  fmt::print("c is {}, the other context {}.\n\n", to_string(c), to_string(other));
  Walk walk;
  walk_through(walk, c, other);

  const double mebibytes = static_cast<double>(n * n) * 4 / (1 << 20);
  const std::vector<Action> actions = time_actions(c, n);
  const auto crosses = [&](const Action& a) { return a.crosses && !is_host(c); };
  Table table({"action", {"time", "seconds"}, {"crosses to the host", "crosses"}});
  std::vector<svg::Bar> bars;
  for (const Action& a : actions) {
    table.add({a.name, time_cell(a.seconds), yes_no(crosses(a))}, c);
    bars.push_back(
        {a.name, a.seconds, time_text(a.seconds), crosses(a) ? svg::kAmber : svg::kBlue});
  }
  fmt::print("{} steps as expected. With {:.2f} MiB of weights:\n\n{}\n", walk.checks().size(),
             mebibytes, table.aligned());
  program.finish(
      table,
      Program::Bars{
          .title =
              fmt::format("Parameters on {}: {:.2f} MiB written and read", to_string(c), mebibytes),
          .list = {c},
          .label_width = 230,
          .bars = bars,
          .explanation = (is_host(c) ? "" : "Blue: stays there. Brown: crosses to the host.\n") +
                         explain(actions, c, mebibytes)});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 1024;
  Program program("2_parameters", "Reading and writing a network's parameters on a GPU.",
                  RunsOn::one);
  program.options()
      .add_option("--n", n, "rows and columns of the weights that are timed")
      ->check(CLI::Range(1, 16384))
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
