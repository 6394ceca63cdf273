// Times one large matrix product: 15360 x 15360 in f32 by default on a GPU, smaller on a CPU.
//   matmul_timing --out out
// The first run is shown separately, because it starts the device and loads kernels. Every run ends
// with a wait. With TF32 a GPU is several times faster and less exact.
#include <cmath>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t n = 0;
  bool tf32 = false;
};

struct Result {
  Context context;
  int64_t n = 0;
  Timing timing;
  double flops = 0;  // a second
  double error = 0;
};

Result multiply(Context c, const Options& options) {
  const int64_t n = options.n > 0 ? options.n : real_gpu(c) ? 15360 : 1536;
  random::seed(1);
  const Tensor a = random::uniform(-1, 1, {n, n}, c), b = random::uniform(-1, 1, {n, n}, c);
  b.wait_to_read();
  Tensor product;
  const Timing t = measure([&] {
    product = dot(a, b);
    product.wait_to_read();
  });
  const double flops = 2 * std::pow(static_cast<double>(n), 3);
  return {c, n, t, flops / t.median, check_product(to_string(c), a, b, product)};
}

void run(const Program& program, const Options& options) {
  if (options.tf32) turn_on_tf32();
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context",
               "n",
               {"first", "first_seconds"},
               {"median", "seconds"},
               {"rate", "tflops"},
               "error"});
  std::vector<svg::Bar> bars;
  std::vector<Result> results;
  for (const Context c : contexts) {
    const Result r = multiply(c, options);
    results.push_back(r);
    const std::string n = fmt::format("{}", r.n), where = to_string(c);
    table.add({where, n, time_cell(r.timing.first), time_cell(r.timing.median),
               Cell(si_text(r.flops, "FLOP/s"), fmt::format("{:.6g}", r.flops / 1e12)),
               number_cell(r.error, "{:.0e}")},
              c);
    bars.push_back({where, r.flops, si_text(r.flops, "FLOP/s") + ", n = " + n});
  }
  fmt::print("{}\n", table.aligned());
  std::string s;
  const Result* unsteady = nullptr;
  bool slower = false;
  for (const Result& r : results) {
    const Timing& t = r.timing;
    const bool cold = t.first - t.median > 2 * t.spread;
    slower = slower || cold;
    s +=
        fmt::format("On {}, the first product takes {} and later ones {} ± {}{}. ",
                    to_string(r.context), time_text(t.first), time_text(t.median),
                    time_text(t.spread), cold ? "" : ": the first is not slower beyond the spread");
    if (!unsteady || t.spread / t.median > unsteady->timing.spread / unsteady->timing.median)
      unsteady = &r;
  }
  if (slower)
    s += "A slower first product also pays for the start of the device and the choice of kernels; "
         "the rate is that of later ones. ";
  s += "The error is the largest relative error against f64 on the CPU.\n" +
       unsteady_note(to_string(unsteady->context), unsteady->timing);
  program.finish(table, Program::Bars{.title = "A large product of two matrices",
                                      .list = contexts,
                                      .label_width = 80,
                                      .bars = bars,
                                      .explanation = s});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("matmul_timing", "Times a large product of two matrices, cold and warm.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", options.n, "rows and columns (default: 15360 on a GPU, else 1536)")
      ->check(whole(1, int64_t{1} << 16));
  program.options().add_flag("--tf32", options.tf32, "let GPUs round f32 operands to TF32");
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
