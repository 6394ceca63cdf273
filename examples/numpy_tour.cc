// Does what NumPy users do, on cpu(0) and gpu(0) side by side.
//   numpy_tour
//   numpy_tour --n 10000000 --out out
// Each row has the NumPy expression, the time on each context, and, on several contexts, whether
// the results agree. The inputs are the same random numbers everywhere. A time is the median of at
// least five runs, each with a wait for its result.
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The inputs on one context.
struct Inputs {
  Tensor x;       // (n,) normal numbers
  Tensor gaps;    // x with some NaN
  Tensor ids;     // (n,) integers below 1000
  Tensor matrix;  // x as a matrix with 1000 columns
  Tensor image;   // the same with three axes
  Tensor edges;   // 100 rising numbers
  Tensor blocks;  // x as matrices of 10 x 10
  Tensor a;       // symmetric matrices of 10 x 10, with eigenvalues from 1 on
  Tensor b;       // a right side for each
};
constexpr int64_t kColumns = 1000, kBlock = 10;

Inputs make_inputs(Context c, int64_t n) {
  random::seed(7);
  Inputs in;
  in.x = random::normal(0, 1, {n}, {c});
  in.gaps = where(in.x > 2, kNan, in.x);
  in.ids = random::randint(0, kColumns, {n}, {c, i64});
  in.matrix = in.x.reshape({-1, kColumns});
  in.image = in.x.reshape({-1, 20, 50});
  in.edges = linspace(-3, 3, 100, {c});
  in.blocks = in.x.reshape({-1, kBlock, kBlock});
  in.a = einsum("nik,njk->nij", {in.blocks, in.blocks}) / kBlock + eye(kBlock, 0, 0, {c});
  in.b = in.blocks(Slice(), Slice(), Slice(0, 1));
  return in;
}

struct Stop {
  const char* numpy;
  std::function<Tensor(const Inputs&)> run;
};

std::vector<Stop> stops() {
  using In = const Inputs&;
  return {
      {"np.sort(x)", [](In i) { return sort(i.x); }},
      {"np.argsort(matrix, axis=0)", [](In i) { return argsort(i.matrix, 0); }},
      {"x[np.argpartition(x, -5)[-5:]]", [](In i) { return topk(i.x, 5).values; }},
      {"np.unique(ids, return_counts=True)[1]",
       [](In i) { return unique(i.ids, {.return_counts = true}).counts; }},
      {"np.searchsorted(edges, x)", [](In i) { return searchsorted(i.edges, i.x); }},
      {"np.histogram(x, 50)[0]", [](In i) { return histogram(i.x, 50).first; }},
      {"np.bincount(ids)", [](In i) { return bincount(i.ids); }},
      {"np.cumsum(matrix, axis=1)", [](In i) { return cumsum(i.matrix, 1); }},
      {"np.diff(x)", [](In i) { return diff(i.x); }},
      {"np.quantile(matrix, [.25, .5, .75], axis=1)",
       [](In i) {
         return quantile(i.matrix, {.25, .5, .75}, {.axis = 1});
       }},
      {"np.nanmean(gaps)", [](In i) { return nanmean(i.gaps); }},
      {"x[x > 0]", [](In i) { return i.x[i.x > 0].gather(); }},
      {"np.take_along_axis(matrix, matrix.argmax(1)[:, None], 1)",
       [](In i) {
         return take_along_axis(i.matrix, argmax(i.matrix, {.axis = 1, .keepdims = true}),
                                {.axis = 1});
       }},
      {"np.add.at(np.zeros(1000), ids, x)",
       [](In i) { return index_add(zeros({kColumns}, {i.x.context()}), 0, i.ids, i.x); }},
      {"np.pad(image, ((0, 0), (2, 2), (2, 2)), 'reflect')",
       [](In i) {
         return pad(i.image, {{0, 0}, {2, 2}, {2, 2}}, {.mode = PadMode::reflect});
       }},
      {"np.roll(image, 3, axis=2)", [](In i) { return roll(i.image, 3, 2); }},
      {"np.tril(matrix)", [](In i) { return tril(i.matrix); }},
      {"np.round(x, 2)", [](In i) { return round(i.x, 2); }},
      {"np.arctan2(x, gaps)", [](In i) { return arctan2(i.x, i.gaps); }},
      {"ids // 7, ids % 7", [](In i) { return divmod(i.ids, 7).second; }},
      {"rng.gamma(2, 1, n)",
       [](In i) { return random::gamma(2, 1, i.x.shape(), {i.x.context()}); }},
      {"np.linalg.solve(a, b)", [](In i) { return solve(i.a, i.b); }},
      {"np.linalg.eigh(a)[0]", [](In i) { return eigh(i.a).eigenvalues; }},
      {"np.linalg.svd(blocks)[1]", [](In i) { return svd(i.blocks).s; }},
      {"np.einsum('nij,njk,nkl->nil', blocks, a, b)",
       [](In i) {
         return einsum("nij,njk,nkl->nil", {i.blocks, i.a, i.b});
       }},
  };
}

void run(const Program& program, int64_t wanted) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  const int64_t n = wanted / kColumns * kColumns;
  std::vector<Inputs> inputs;
  for (const Context c : contexts) inputs.push_back(make_inputs(c, n));
  std::vector<Column> columns{"NumPy"};
  for (const Context c : contexts) columns.push_back({to_string(c), to_string(c) + " seconds"});
  columns.push_back("result");
  Table table(columns);
  std::vector<svg::Bar> bars;
  int different = 0;
  for (const Stop& stop : stops()) {
    std::vector<Cell> row{stop.numpy};
    Tensor first;
    std::string verdict;
    for (size_t k = 0; k < contexts.size(); ++k) {
      Tensor result;
      random::seed(3);
      result = stop.run(inputs[k]);
      const Tensor here = result.as_in_context(cpu(0));
      const Timing t = measure([&] {
        result = stop.run(inputs[k]);
        result.wait_to_read();
      });
      row.push_back(time_cell(t.median));
      bars.push_back({fmt::format("{}: {}", to_string(contexts[k]), stop.numpy), t.median,
                      time_text(t.median), k == 0 ? svg::kPaleBlue : svg::kBlue});
      if (k == 0) {
        first = here;
        verdict = fmt::format("{}", to_string(here.shape()));
      } else if (here.shape() == first.shape() &&
                 allclose(here, first, {.rtol = 1e-4, .atol = 1e-4, .equal_nan = true})) {
        verdict = fmt::format("{} equal", to_string(here.shape()));
      } else {
        verdict = "DIFFERENT";
        ++different;
      }
    }
    row.push_back(verdict);
    table.add(row, contexts.back());
  }
  fmt::print("{}\n", table.aligned());
  std::string explanation =
      "Functions have NumPy's names and rules on every context. topk and index_add, which NumPy "
      "lacks, stand for argpartition with a slice and for np.add.at.";
  if (contexts.size() > 1)
    explanation += " Results are compared with the first context's, up to rounding.";
  program.finish(table, Program::Bars{.title = fmt::format("What NumPy users do, with {} numbers",
                                                           count_text(static_cast<double>(n))),
                                      .list = contexts,
                                      .label_width = 420,
                                      .bars = bars,
                                      .explanation = explanation,
                                      .logarithmic = true});
  if (different > 0)
    throw std::runtime_error(fmt::format("{} results differ between contexts", different));
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 1'000'000;
  Program program("numpy_tour", "Does what NumPy users do, on every context.", RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", n, "numbers (default: 1 million)")
      ->check(whole(kColumns, int64_t{1} << 30));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
