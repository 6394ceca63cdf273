// Kernels of one's own, as users of CuPy, PyCUDA and Numba write them, beside the built-in ops.
//   custom_kernel --contexts "cpu(0),gpu(0)" --out out
// On real GPUs, the kernels of PyCUDA's matrix sum and of Numba are CUDA C++. Elsewhere they are
// ElementwiseKernels.
#include <algorithm>
#include <functional>
#include <iostream>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

// --- PyCUDA: pointers, and i.

const ElementwiseKernel& plus_one() {
  static const ElementwiseKernel kernel("const int *x, int *y", "y[i] = x[i] + 1", "plus_one");
  return kernel;
}

// Swapped operands are no error: y keeps its zeros.
void show_plus_one(Context c) {
  const auto text = [](const Tensor& t) {
    std::string s;
    for (const int v : t.to_vector<int>()) s += fmt::format(" {}", v);
    return s;
  };
  const Tensor x = arange(5, {c, i32}), y = zeros({5}, {c, i32});
  plus_one()(y, x);
  fmt::print("plus_one(y, x) on {}:  x ={},  y ={}\n", to_string(c), text(x), text(y));
  const Tensor x2 = arange(5, {c, i32}), y2 = zeros({5}, {c, i32});
  plus_one()(x2, y2);
  fmt::print("plus_one(x, y) on {}:  x ={},  y ={}\n", to_string(c), text(x2), text(y2));
  print_text(
      "The kernel reads its first operand and writes its second. In the first call they are "
      "swapped: the kernel overwrites x, and y keeps the zeros that it began with. With an "
      "input and an output, as in ElementwiseKernel(\"int x\", \"int y\", \"y = x + 1;\", "
      "\"plus_one\"), y = plus_one(x) leaves no such choice.\n\n");
}

// --- PyCUDA: the sum of two matrices, by blocks of 16 x 16 threads.

constexpr int64_t kBlock = 16;

const RawKernel& cuda_matrix_sum() {
  static const RawKernel kernel(R"(
extern "C" __global__ void matrix_sum(const float* a, const float* b, float* sum, int rows,
                                      int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || column >= columns) return;  // the last blocks have threads outside
  const long long at = static_cast<long long>(row) * columns + column;
  sum[at] = a[at] + b[at];
})",
                                "matrix_sum");
  return kernel;
}

void matrix_sum(const Tensor& a, const Tensor& b, const Tensor& sum) {
  static const ElementwiseKernel kernel("T a, T b", "T sum", "sum = a + b;", "matrix_sum");
  if (!real_gpu(a.context())) return kernel.into({a, b}, {sum});
  const int64_t rows = a.shape()[0], columns = a.shape()[1];
  const Dim3 grid{(columns + kBlock - 1) / kBlock, (rows + kBlock - 1) / kBlock};
  cuda_matrix_sum()({.grid = grid, .block = {kBlock, kBlock}},
                    {read(a), read(b), sum, static_cast<int>(rows), static_cast<int>(columns)});
}

// NumPy's RandomState(123).rand(2, 5) * 10, and arange(10).
void show_matrix_sum(Context c) {
  const Tensor a = array({{6.9646919f, 2.8613933f, 2.2685145f, 5.5131477f, 7.1946897f},
                          {4.2310646f, 9.8076420f, 6.8482974f, 4.8093190f, 3.9211752f}},
                         c);
  const Tensor sum = zeros({2, 5}, c);
  matrix_sum(a, arange(10, c).reshape({2, 5}), sum);
  std::cout << "matrix_sum of 2 x 5 numbers, one block of 16 x 16 threads on a GPU:\n"
            << sum << "\n\n";
}

// --- Numba: one thread for each element; f.forall(n).

void increment(const Tensor& x) {
  static const ElementwiseKernel kernel("T old", "T x", "x = old + 1;", "increment");
  static const RawKernel cuda(R"(
extern "C" __global__ void increment(float* x, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) x[i] += 1;
})",
                              "increment");
  if (!real_gpu(x.context())) return kernel.into({x}, {x});
  constexpr int64_t kThreads = 256;
  cuda({.grid = {(x.size() + kThreads - 1) / kThreads}, .block = {kThreads}},
       {x, static_cast<long long>(x.size())});
}

void vector_add(const Tensor& x, const Tensor& y, const Tensor& sum) {
  static const ElementwiseKernel kernel("T x, T y", "T sum", "sum = x + y;", "vector_add");
  static const RawKernel cuda(R"(
extern "C" __global__ void vector_add(const float* x, const float* y, float* sum, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) sum[i] = x[i] + y[i];
})",
                              "vector_add");
  if (!real_gpu(x.context())) return kernel.into({x, y}, {sum});
  cuda.for_all(x.size(), {read(x), read(y), sum, static_cast<long long>(x.size())});
}

// --- The comparison.

struct Row {
  std::string name;
  Context where;
  double first = 0;  // seconds of the kernel's first use
  Timing kernel = {}, ops = {};
};

// Throws unless both give the same numbers, up to `limit`.
Row compare(const std::string& name, Context c, const std::function<Tensor()>& kernel,
            const std::function<Tensor()>& ops, double limit = 0) {
  const double from = now();
  const Tensor got = kernel();
  got.wait_to_read();
  const double first = now() - from;
  check_error(name + " on " + to_string(c), relative_error(got, ops()), limit);
  const auto time = [](const std::function<Tensor()>& f) {
    return measure([&] { f().wait_to_read(); });
  };
  return {name, c, first, time(kernel), time(ops)};
}

std::vector<Row> rows_on(Context c, int64_t n) {
  const int64_t side = 1000, all = n / side * side;
  random::seed(1);
  const Tensor x = random::uniform(-1, 1, {all}, c), y = random::uniform(-1, 1, {all}, c),
               z = random::uniform(-1, 1, {all}, c), sum = zeros({all}, c),
               counts = zeros({all}, c), counted_by_op = zeros({all}, c);
  const Shape matrix{all / side, side};
  const Tensor a = x.reshape(matrix), b = y.reshape(matrix), total = sum.reshape(matrix);
  const Tensor whole = arange(static_cast<double>(all), {c, i32}), next = zeros({all}, {c, i32});

  const ElementwiseKernel squared_difference("T x, T y", "T z", "z = (x - y) * (x - y);",
                                             "squared_difference");
  const auto fused = fuse(
      [](const Tensor& p, const Tensor& q, const Tensor& r) { return p * q + r; }, "multiply_add");
  const ReductionKernel l2("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm");
  return {
      compare(
          "CuPy: (x - y)^2", c, [&] { return squared_difference(x, y); },
          [&] { return square(x - y); }),
      compare(
          "CuPy: fused x * y + z", c, [&] { return fused(x, y, z); }, [&] { return x * y + z; }),
      compare(
          "CuPy: norms of rows", c, [&] { return l2(a, {.axis = 1}); },
          [&] { return norm(a, {.axis = 1}); }, 1e-5),
      compare(
          "PyCUDA: plus one", c,
          [&] {
            plus_one()(whole, next);
            return next;
          },
          [&] { return whole + 1; }),
      compare(
          "PyCUDA: matrix sum", c,
          [&] {
            matrix_sum(a, b, total);
            return total;
          },
          [&] { return a + b; }),
      compare(
          "Numba: increment", c,
          [&] {
            increment(counts);
            return counts;
          },
          [&] {
            Tensor t = counted_by_op;
            t += 1;
            return t;
          }),
      compare(
          "Numba: vector add", c,
          [&] {
            vector_add(x, y, sum);
            return sum;
          },
          [&] { return x + y; }),
  };
}

std::string explain(const std::vector<Row>& rows, const std::vector<Context>& contexts) {
  std::string s;
  for (const Context c : contexts) {
    std::string faster, slower;
    for (const Row& r : rows) {
      if (r.where != c || !differ(r.kernel, r.ops)) continue;
      std::string& list = r.kernel.median < r.ops.median ? faster : slower;
      list += (list.empty() ? "" : "; ") + r.name;
    }
    s += fmt::format("On {}, faster as a kernel than as ops: {}. ", to_string(c),
                     faster.empty() ? "nothing" : faster);
    if (!slower.empty()) s += fmt::format("Slower: {}. ", slower);
  }
  s += "A kernel saves where ops would write a tensor between them.";
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.first < b.first; });
  return s + fmt::format(
                 " First uses, not in the table, took {} to {}: they compile the kernel, or read "
                 "its code from the cache on disk.",
                 time_text(least->first), time_text(most->first));
}

void run(const Program& program, int64_t size) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  show_plus_one(contexts.back());
  show_matrix_sum(contexts.back());
  const bool gpu = std::any_of(contexts.begin(), contexts.end(), real_gpu);
  const int64_t n = size > 0 ? size : gpu ? 10'000'000 : 1'000'000;
  std::vector<Row> rows;
  for (const Context c : contexts)
    for (const Row& r : rows_on(c, n)) rows.push_back(r);

  Table table({"what",
               "context",
               {"kernel", "kernel_seconds"},
               {"ops", "ops_seconds"},
               {"ops / kernel", "ratio"}});
  std::vector<svg::Bar> bars;
  for (const Row& r : rows) {
    const std::string where = to_string(r.where), name = r.name + ", " + where;
    table.add({r.name, where, time_cell(r.kernel.median), time_cell(r.ops.median),
               number_cell(r.ops.median / r.kernel.median, "{:.2f}")},
              r.where);
    bars.push_back({name + ": kernel", r.kernel.median, time_text(r.kernel.median), svg::kBlue});
    bars.push_back({name + ": ops", r.ops.median, time_text(r.ops.median), svg::kMuted});
  }
  fmt::print("{}\n", table.aligned());
  program.finish(table,
                 Program::Bars{.title = fmt::format("Kernels of one's own beside ops, {}",
                                                    counted(static_cast<double>(n), "number")),
                               .list = contexts,
                               .label_width = 280,
                               .bars = bars,
                               .explanation = explain(rows, contexts),
                               .logarithmic = contexts.size() > 1});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("custom_kernel", "Runs kernels of one's own beside the built-in ops.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", n, "numbers in a tensor (default: 10 million with a GPU, else 1 million)")
      ->check(whole(1000, int64_t{1} << 31));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
