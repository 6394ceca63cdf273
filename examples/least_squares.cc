// Fits a polynomial through noisy points in three ways: by lstsq, by cholesky of the normal
// equations, and by gradient descent.
//   least_squares --degree 5 --context "gpu(0)" --out out
// Each way minimises |a w - y|. The solution fulfils the normal equations a' a w = a' y. The table
// compares residuals and coefficients. The picture shows the curves, and the error before each step
// of gradient descent.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "least_squares/chart.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t degree = 5, points = 100, seed = 7, steps = 10'000;
  double noise = 0.2;
};

Tensor compute_true_curve(const Tensor& x) { return sin(3 * x) + x / 2; }

// The columns are x^0, x^1, ..., x^degree.
Tensor compute_powers(const Tensor& x, int64_t degree) {
  return power(expand_dims(x, 1), arange(static_cast<double>(degree + 1), {x.context(), f64}));
}

Tensor fit_by_cholesky(const Tensor& a, const Tensor& y) {
  const Tensor l = cholesky(dot(a.T(), a));
  const Tensor z = solve_triangular(l, dot(a.T(), y));  // l z = a' y
  return solve_triangular(l, z, {.transpose = true});   // l' w = z
}

// Writes the mean square before each step to `losses`, one element a step.
Tensor fit_by_descent(const Tensor& a, const Tensor& y, double rate, const Tensor& losses) {
  Tensor w = zeros({a.shape()[1]}, {a.context(), f64});
  w.attach_grad();
  for (int64_t step = 0; step < losses.size(); ++step) {
    Tensor loss;
    {
      autograd::Record record;
      loss = square(dot(a, w) - y).mean();
    }
    loss.backward();
    losses(step) = loss;
    w -= rate * w.grad();
  }
  return w;
}

struct Fit {
  std::string name;
  svg::Plot::CurveStyle style;
  double condition;       // of a for lstsq, of a' a for the other ways
  Tensor w;               // undefined: no result
  double difference = 0;  // |w - w of lstsq| / |w of lstsq|
};

svg::Points make_points(const Tensor& x, const Tensor& y) {
  const std::vector<double> xs = x.to_vector<double>(), ys = y.to_vector<double>();
  svg::Points points;
  for (size_t i = 0; i < xs.size(); ++i) points.emplace_back(xs[i], ys[i]);
  return points;
}

std::string draw(const Options& o, const Tensor& x, const Tensor& y, const std::vector<Fit>& fits,
                 const Tensor& errors) {
  const Tensor grid = linspace(-1, 1, 401, {x.context(), f64});
  std::vector<least_squares::Curve> curves{
      {"true curve", make_points(grid, compute_true_curve(grid)), {svg::kMuted, 1.6, false, true}}};
  for (const Fit& f : fits)
    if (f.w.defined())
      curves.push_back(
          {f.name, make_points(grid, dot(compute_powers(grid, o.degree), f.w)), f.style});
  const Slice some({}, {}, (x.size() + 499) / 500);  // at most 500 points
  return least_squares::draw_chart(make_points(x(some), y(some)), curves,
                                   errors.to_vector<double>());
}

constexpr double kSingular = 4.5e15;  // 1 / epsilon of f64

void run(const Program& program, const Options& o) {
  const Context c = program.context();
  if (o.points <= o.degree)
    throw ValueError("--points ", o.points, ": a polynomial of degree ", o.degree, " has ",
                     o.degree + 1, " coefficients; expected at least ", o.degree + 1, " points");
  fmt::print("{}; f64\n\n", describe(c));
  random::seed(static_cast<uint64_t>(o.seed));
  const Tensor x = random::uniform(-1, 1, {o.points}, {c, f64});
  const Tensor y = compute_true_curve(x) + o.noise * random::normal(0, 1, {o.points}, {c, f64});
  const Tensor a = compute_powers(x, o.degree);

  const double of_a = cond(a).item<double>(), of_square = cond(dot(a.T(), a)).item<double>();
  const Lstsq best = lstsq(a, y);
  const double largest = best.s[0].item<double>();
  const double rate = static_cast<double>(o.points) / (2 * largest * largest);
  const Tensor losses = zeros({o.steps}, {c, f64});
  std::vector<Fit> fits{
      {"lstsq", {svg::kPaleBlue, 6, false}, of_a, best.x},
      {"cholesky", {svg::kBlue, 2, false}, of_square, Tensor()},
      {"gradient descent",
       {svg::kAmber, 2.4, false, true},
       of_square,
       fit_by_descent(a, y, rate, losses)},
  };
  std::string refusal;
  try {
    fits[1].w = fit_by_cholesky(a, y);
  } catch (const ValueError& e) {
    refusal = e.what();
  }

  std::vector<Column> columns{"way",
                              {"condition number", "condition_number"},
                              {"|a w - y|", "residual"},
                              {"from lstsq", "relative_difference"}};
  for (int64_t k = 0; k <= o.degree; ++k)  // the first five are printed, too
    columns.push_back({k < 5 ? fmt::format("w[{}]", k) : "", fmt::format("w{}", k)});
  Table table(columns);
  for (Fit& f : fits) {
    std::vector<Cell> row{f.name, number_cell(f.condition, "{:.2e}")};
    if (f.w.defined()) {
      f.difference = (norm(f.w - best.x) / norm(best.x)).item<double>();
      row.push_back(number_cell(norm(dot(a, f.w) - y).item<double>(), "{:.7g}"));
      row.push_back(number_cell(f.difference, "{:.1e}"));
      for (const double w : f.w.to_vector<double>()) row.push_back(number_cell(w, "{:+.4f}"));
    } else {
      row.resize(columns.size(), Cell("none", ""));
    }
    table.add(row, c);
  }
  fmt::print("{}\n", table.aligned());

  const int64_t rank = best.rank.item<int64_t>();
  std::string explanation = fmt::format(
      "The normal equations square the condition number of a, {:.1e}, so cholesky loses twice as "
      "many digits as lstsq. ",
      of_a);
  if (of_square > kSingular)
    explanation += fmt::format(
        "A matrix whose condition number exceeds {:.1e} is singular up to rounding. ", kSingular);
  explanation += refusal.empty()
                     ? fmt::format("Here their coefficients differ by {:.1e}. ", fits[1].difference)
                     : "Here cholesky has no result: \"" + refusal + "\". ";
  if (rank <= o.degree)
    explanation += fmt::format(
        "lstsq counts {} of the {} columns of a as independent, and returns the shortest w. ", rank,
        o.degree + 1);
  explanation += fmt::format(
      "Gradient descent needs about as many steps as the squared condition number: after {} its "
      "coefficients differ from those of lstsq by {:.1e}.",
      counted(static_cast<double>(o.steps), "step"), fits[2].difference);
  const Tensor errors = losses - square(dot(a, best.x) - y).mean();
  program.finish(
      table,
      svg::Figure{
          .title = fmt::format("A polynomial of degree {} through {} points", o.degree, o.points),
          .subtitle = fmt::format("{}; f64; noise {}, seed {}", describe(c), o.noise, o.seed),
          .body = draw(o, x, y, fits, errors),
          .explanation = explanation,
          .top = least_squares::kTop,
          .height = least_squares::kHeight});
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  Program program("least_squares", "Fits a polynomial through noisy points in three ways.",
                  RunsOn::one);
  const auto add = [&](const char* name, auto& value, const char* help, const CLI::Validator& ok) {
    program.options().add_option(name, value, help)->check(ok)->capture_default_str();
  };
  add("--degree", o.degree, "degree of the polynomial", whole(1, 100));
  add("--points", o.points, "number of points", whole(2, 100'000));
  add("--noise", o.noise, "standard deviation of the points from the true curve", number(0, 1000));
  add("--steps", o.steps, "steps of gradient descent", whole(10, 1'000'000));
  add("--seed", o.seed, "seed of the random points", whole(0));
  return program.run(argc, argv, [&](const Program& p) { run(p, o); });
}
