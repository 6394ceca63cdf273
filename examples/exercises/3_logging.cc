// Exercise 3: what does it cost to look at every result? 1000 products M_i = A_i·B_i of 100 x 100
// matrices; the Frobenius norm of each is logged in several ways:
//   read and print   each norm is fetched and printed as soon as it is computed: 1000 waits
//   read             without printing
//   log on the GPU   norms are written into a vector on the GPU; one transfer
//   compiled         as before, recorded once and replayed: no launch from the host for each
//   one batch        one product of two stacks of matrices, one reduction, one transfer
// The exercise's trace of M·Mᵀ is the square of this norm. The norm needs no second product.
//   3_logging --out out
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t count = 1000, n = 100;
};

struct Matrices {
  Tensor all_a, all_b;  // (count, n, n)
  Tensors a, b;         // the matrices in them
};

Matrices make_matrices(Context c, const Options& options) {
  random::seed(3);
  const Shape shape{options.count, options.n, options.n};
  Matrices m{random::uniform(-1, 1, shape).as_in_context(c),
             random::uniform(-1, 1, shape).as_in_context(c),
             {},
             {}};
  for (int64_t i = 0; i < options.count; ++i) {
    m.a.push_back(m.all_a[i]);
    m.b.push_back(m.all_b[i]);
  }
  return m;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Prints to a file, because a terminal's speed varies.
File open_log() {
  File file(std::tmpfile(), &std::fclose);
  if (!file) throw std::runtime_error("cannot open a temporary file for the log");
  return file;
}
void print_line(std::FILE* file, size_t i, float norm) {
  fmt::print(file, "{} {}\n", i, norm);
  std::fflush(file);
}

using Log = std::vector<float>;

Log read_each(const Matrices& m, std::FILE* file) {
  Log log;
  for (size_t i = 0; i < m.a.size(); ++i) {
    log.push_back(norm(dot(m.a[i], m.b[i])).item<float>());
    if (file) print_line(file, i, log.back());
  }
  return log;
}

Tensor norms_on_device(const Matrices& m) {
  const Tensor log = empty({m.a.size()}, m.all_a.context());
  // With `out`, norm is one launch and no copy.
  for (size_t i = 0; i < m.a.size(); ++i) norm(dot(m.a[i], m.b[i]), {.out = log[i]});
  return log;
}

Log log_on_device(const Matrices& m, std::FILE* file) {
  const Log values = norms_on_device(m).to_vector<float>();
  for (size_t i = 0; file && i < values.size(); ++i) print_line(file, i, values[i]);
  return values;
}

Log one_batch(const Matrices& m) {
  return norm(matmul(m.all_a, m.all_b), {.axis = {1, 2}}).to_vector<float>();
}

struct Way {
  std::string name;
  const char* color = svg::kBlue;
  Timing timing = {};
  uint64_t waits = 0, copies = 0;  // the host's waits, and copies to the host, in TransferLog
  Log log = {};
};

std::vector<Way> measure_ways(const Matrices& m, const std::string& where) {
  const File file = open_log();
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const char* color, auto way) {
    Way w{.name = name, .color = color};
    w.timing = measure([&] { w.log = way(); });
    const TransferLog ledger;  // a separate run, because counting takes time
    way();
    for (const TransferEntry& e : ledger.entries()) {
      const bool copy = e.kind == TransferKind::copy;
      if (copy && is_host(e.to) && !is_host(e.from)) w.copies += e.count;
      if (!copy) w.waits += e.count;
    }
    ways.push_back(std::move(w));
  };
  add("read and print each", svg::kAmber, [&] { return read_each(m, file.get()); });
  add("read each", svg::kAmber, [&] { return read_each(m, nullptr); });
  add("log on " + where + ", then print", svg::kBlue, [&] { return log_on_device(m, file.get()); });
  add("log on " + where, svg::kBlue, [&] { return log_on_device(m, nullptr); });
  Compiled norms([&](const Tensors&) { return Tensors{norms_on_device(m)}; });
  add("log on " + where + ", compiled", svg::kBlue,
      [&] { return norms({})[0].to_vector<float>(); });
  add("one batch", svg::kGreen, [&] { return one_batch(m); });
  return ways;
}

double largest_difference(const Log& a, const Log& b) {
  double d = 0;
  for (size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(double{a[i]} - double{b[i]}));
  return d;
}

std::string copies(uint64_t n) { return fmt::format("{} {}", n, n == 1 ? "copy" : "copies"); }

std::string explain(const std::vector<Way>& ways, Context c, double error) {
  const auto n = static_cast<double>(ways[0].log.size());
  const Way &printed = ways[0], &read = ways[1], &log = ways[3], &compiled = ways[4],
            &batch = ways[5];
  std::string s =
      fmt::format("A product takes {} if each norm is read, and {} if the log stays on {}: {}. ",
                  time_text(read.timing.median / n), time_text(log.timing.median / n), to_string(c),
                  differ(read.timing, log.timing)
                      ? fmt::format("{:.2f} times as fast", read.timing.median / log.timing.median)
                      : "no difference beyond the spread");
  s +=
      is_host(c)
          ? "On the CPU nothing waits and nothing moves, so this run cannot show what a read costs "
            "on a GPU. "
          : fmt::format(
                "At each read the host waits for the GPU, then the GPU waits for the host: {} and "
                "{} of 4 bytes, instead of {} and {}. ",
                counted(static_cast<double>(read.waits), "wait"), copies(read.copies),
                counted(static_cast<double>(log.waits), "wait"), copies(log.copies));
  const double printing = printed.timing.median - read.timing.median;
  s += printing > 0 && differ(printed.timing, read.timing)
           ? fmt::format("Printing each line adds {}. ", time_text(printing / n))
           : "The cost of printing is within the spread of this run. ";
  s += fmt::format("Compiled, a product takes {}. One batch of all products takes {}. ",
                   time_text(compiled.timing.median / n), time_text(batch.timing.median));
  return s +
         fmt::format(
             "Norms that are read and norms that are logged have the same bits. Their largest "
             "relative error against f64 on the CPU is {:.0e}. The log holds the Frobenius norm "
             "of M; its square is the trace of M·Mᵀ: {:.4f} and {:.2f} for the first product.",
             error, log.log[0], std::pow(double{log.log[0]}, 2));
}

void run(const Program& program, const Options& options) {
  const Context c = program.context();
  program.print_machine({c});
  const Matrices m = make_matrices(c, options);
  const double start = now();
  read_each(m, nullptr);
  fmt::print("First use, not in the table: {}\n\n", time_text(now() - start));
  const std::vector<Way> ways = measure_ways(m, to_string(c));

  // Logged and read norms are the same computation. The batch may sum in another order.
  const double difference = std::max(largest_difference(ways[1].log, ways[3].log),
                                     largest_difference(ways[1].log, ways[4].log));
  if (difference != 0)
    throw std::runtime_error(fmt::format(
        "the logged norms differ from those read, by up to {}; expected 0", difference));
  const Tensor exact = norm(matmul(exactly(m.all_a), exactly(m.all_b)), {.axis = {1, 2}});
  double error = 0;
  for (const Way& w : ways) error = std::max(error, relative_error(array(w.log), exact));
  check_error("the norms", error, 1e-5);

  const auto n = static_cast<double>(options.count);
  Table table({"way",
               {"time", "seconds"},
               {"per product", ""},
               {"host waits", "waits"},
               {"copies to host", "copies"},
               {"speed-up", "speed_up"}});
  std::vector<svg::Bar> bars;
  for (const Way& w : ways) {
    const double seconds = w.timing.median;
    table.add({w.name, time_cell(seconds), time_text(seconds / n), fmt::format("{}", w.waits),
               fmt::format("{}", w.copies), number_cell(ways[1].timing.median / seconds, "{:.2f}")},
              c);
    bars.push_back({w.name, seconds, time_text(seconds), w.color});
  }
  fmt::print("{}\n", table.aligned());

  program.finish(
      table, Program::Bars{.title = fmt::format("{} products of {} x {} and their norms on {}",
                                                options.count, options.n, options.n, to_string(c)),
                           .list = {c},
                           .label_width = 200,
                           .bars = bars,
                           .explanation = explain(ways, c, error)});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("3_logging", "Norms of many small products: read each, or log them on the GPU.",
                  RunsOn::one);
  program.options()
      .add_option("--count", options.count, "products")
      ->check(whole(1, 100000))
      ->capture_default_str();
  program.options()
      .add_option("--n", options.n, "rows and columns of the matrices")
      ->check(whole(1, 4096))
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
