// The large matrix product people time first: 15360 x 15360 in f32 by default on a GPU, smaller on
// a CPU. The first run is shown apart (it starts the device and loads kernels), every run ends with
// a wait, and the precision is said: with TF32 a GPU is several times faster and less exact.
#include <cmath>

#include <fmt/format.h>
#include <locus/locus.h>

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
  const bool real_gpu = !is_host(c) && !emulated(c);
  const int64_t n = options.n > 0 ? options.n : real_gpu ? 15360 : 1536;
  random::seed(1);
  const Tensor a = random::uniform(-1, 1, {n, n}, c), b = random::uniform(-1, 1, {n, n}, c);
  b.wait_to_read();
  Tensor product;
  const Timing t = measure([&] {
    product = dot(a, b);
    product.wait_to_read();
  });
  const Slice rows(0, n, std::max<int64_t>(1, n / 8));
  const auto exactly = [](const Tensor& x) { return x.as_in_context(cpu()).astype(f64); };
  const double error =
      relative_error(product(rows, Slice()), dot(exactly(a(rows, Slice())), exactly(b)));
  check_error(to_string(c), error, tf32() ? 5e-3 : 2e-5);
  return {c, n, t, 2 * std::pow(static_cast<double>(n), 3) / t.median, error};
}

void run(const Program& program, const Options& options) {
  if (options.tf32) turn_on_tf32();
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context", "n", "first", "median", "TFLOP/s", "error"});
  Table csv({"context", "n", "first_seconds", "seconds", "tflops", "error", "modelled"});
  std::vector<svg::Bar> bars;
  std::vector<Result> results;
  for (const Context c : contexts) {
    const Result r = multiply(c, options);
    results.push_back(r);
    const std::string n = fmt::format("{}", r.n), where = to_string(c);
    table.add({where, n, time_text(r.timing.first), time_text(r.timing.median),
               fmt::format("{:.3g}", r.flops / 1e12), fmt::format("{:.0e}", r.error)});
    csv.add({where, n, fmt::format("{:.6g}", r.timing.first),
             fmt::format("{:.6g}", r.timing.median), fmt::format("{:.6g}", r.flops / 1e12),
             fmt::format("{:.3g}", r.error), emulated(c) ? "yes" : "no"});
    bars.push_back({where, r.flops, fmt::format("{:.3g} TFLOP/s, n = {}", r.flops / 1e12, n)});
  }
  fmt::print("{}\n", table.aligned());
  std::string s;
  for (const Result& r : results)
    s += fmt::format("On {} the first product takes {} and later ones {}. ", to_string(r.context),
                     time_text(r.timing.first), time_text(r.timing.median));
  s += "Only the later ones say how fast the hardware is. The error is the largest relative one "
       "against f64 on the CPU.";
  if (results.size() < 2)
    s += " With a single context there is nothing to compare it with in this run.";
  program.finish(csv, Program::Bars{.title = "A large product of two matrices",
                                    .list = contexts,
                                    .label_width = 80,
                                    .bars = bars,
                                    .explanation = s});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("matmul_timing", "Times a large product of two matrices, cold and warm.");
  program.options()
      .add_option("--n", options.n, "rows and columns (default: 15360 on a GPU, else 1536)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  program.options().add_flag("--tf32", options.tf32, "let GPUs round f32 operands to TF32");
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
