// Products of the MLP 784-256-128-10 at several batch sizes, by dot() and dense(), and of square
// matrices. Each time is of one product in a sequence; GFLOP/s counts 2*m*n*k. kOwnLimit in
// ops/matmul/matmul_tiling.h is the number of multiply-adds from which a GPU uses cuBLAS. Ten
// einsums: torch_einsum of peers.py has the same. Linear algebra: torch_linalg, cupy_linalg,
// numpy_linalg and scipy_linalg of peers.py have the same.
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/einsum.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/view.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

// `call` issues one product of 2*m*n*k operations.
void products(benchmark::State& state, double m, double n, double k, const auto& call) {
  state.counters["GFLOP/s"] = 2e-9 * m * n * k / per_call(state, call);
}

std::string shape_name(int64_t m, int64_t n, int64_t k) {
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
}

void add_layer(Context c, int64_t rows, int64_t inputs, int64_t units) {
  const std::string where = to_string(c) + "/";
  const auto size = [c](int64_t m, int64_t n) { return sample_values(c, f32, {m, n}, -1, 1); };
  const double work[] = {double(rows), double(units), double(inputs)};

  add_timed("matmul/" + where + "dense_relu " + shape_name(rows, units, inputs),
            [=](benchmark::State& s) {
              const Tensor x = size(rows, inputs), w = size(units, inputs),
                           b = sample_values(c, f32, {units}, -1, 1);
              products(s, work[0], work[1], work[2],
                       [&] { dense(x, w, b, FusedActivation::relu); });
            });
  add_timed("matmul/" + where + "dense_backward " + shape_name(rows, units, inputs),
            [=](benchmark::State& s) {
              const Tensor dy = size(rows, units), x = size(rows, inputs), w = size(units, inputs);
              const Op& op = get_op("dense_backward");
              const DenseBackwardAttrs attrs{true, true, true, true};
              products(s, 2 * work[0], work[1], work[2], [&] {
                const Ref in[] = {dy, x, w, dy};
                invoke_all(op, in, attrs);
              });
            });
  add_timed("matmul/" + where + "dx " + shape_name(rows, inputs, units), [=](benchmark::State& s) {
    const Tensor dy = size(rows, units), w = size(units, inputs);
    products(s, work[0], work[1], work[2], [&] { dot(dy, w); });
  });
  add_timed("matmul/" + where + "dw " + shape_name(units, inputs, rows), [=](benchmark::State& s) {
    const Tensor dy = size(rows, units).T(), x = size(rows, inputs);
    products(s, work[0], work[1], work[2], [&] { dot(dy, x); });
  });
}

void add_square(Context c, DType d, int64_t n) {
  add_timed("matmul/" + to_string(c) + "/dot " + name(d) + " " + shape_name(n, n, n),
            [=](benchmark::State& s) {
              const Tensor a = sample_values(c, f32, {n, n}, -1, 1).astype(d);
              const double m = static_cast<double>(n);
              products(s, m, m, m, [&] { dot(a, a); });
            });
}

void add_einsum(Context c, int64_t n) {
  const auto add = [c](const char* subscripts, std::vector<Shape> shapes) {
    add_timed("einsum/" + to_string(c) + "/" + subscripts, [=](benchmark::State& s) {
      Tensors x;
      for (const Shape& shape : shapes) x.push_back(sample_values(c, f32, shape, -1, 1));
      per_call(s, [&] { einsum(subscripts, x); });
    });
  };
  add("bqhd,bkhd->bhqk", {{8, n, 8, 64}, {8, n, 8, 64}});
  add("bhqk,bkhd->bqhd", {{8, 8, n, n}, {8, n, 8, 64}});
  add("bi,oij,bj->bo", {{n, 128}, {64, 128, 128}, {n, 128}});
  add("bi,bj->bij", {{n, 256}, {n, 256}});
  add("bij,bj->bi", {{n, 256, 256}, {n, 256}});
  add("ijk,ikl->ijl", {{64, n, 64}, {64, 64, n}});
  add("ij,jk,kl->il", {{2 * n, 2 * n}, {2 * n, 2 * n}, {2 * n, 64}});
  add("i,i", {{8192 * n}, {8192 * n}});
  add("bii->bi", {{n, 64, 64}});
  add("ii", {{8 * n, 8 * n}});
}

// One large matrix, or many small ones. Checks wait, as the checks of PyTorch, NumPy and SciPy do.
void add_linalg(Context c, const Shape& shape, const std::string& size) {
  const auto add = [&](const std::string& name, const auto& call) {
    add_timed("linalg/" + to_string(c) + "/" + name + " " + size, [=](benchmark::State& s) {
      const Tensor x = random::normal(0, 1, shape, {c, f32}), turned = swapaxes(x, -1, -2);
      const Tensor one = eye(shape[shape.rank() - 1], 0, 0, {c, f32});
      const Tensor a = matmul(x, turned) + one * static_cast<double>(shape[shape.rank() - 1]);
      const Tensor b = ones_like(slice_axis(a, -1, Slice(0, 1)));
      per_call(s, [&] { call(a, b); });
    });
  };
  add("cholesky", [](const Tensor& a, const Tensor&) { cholesky(a); });
  add("solve", [](const Tensor& a, const Tensor& b) { solve(a, b); });
  add("inv", [](const Tensor& a, const Tensor&) { inv(a); });
  add("lu", [](const Tensor& a, const Tensor&) { lu(a); });
  add("det", [](const Tensor& a, const Tensor&) { det(a); });
  add("qr", [](const Tensor& a, const Tensor&) { qr(a); });
  add("eigh", [](const Tensor& a, const Tensor&) { eigh(a); });
  add("svd", [](const Tensor& a, const Tensor&) { svd(a, {.full_matrices = false}); });
}

}  // namespace

void add_matmul() {
  for (Context c : contexts()) {
    for (int64_t rows : {64, 256, 4096}) {
      add_layer(c, rows, 784, 256);
      add_layer(c, rows, 256, 128);
      add_layer(c, rows, 128, 10);
    }
    for (int64_t n : {64, 100, 256, 512, 1024}) add_square(c, f32, n);
    add_einsum(c, c.type == DeviceType::gpu && real_gpu() ? 512 : 128);
    if (c.type != DeviceType::gpu || !real_gpu()) continue;
    for (DType d : {f32, f64, bf16}) add_square(c, d, 4096);
  }
  for (const Context c : contexts()) {
    const bool gpu = c.type == DeviceType::gpu;
    add_linalg(c, gpu ? Shape{2048, 2048} : Shape{500, 500}, gpu ? "2048" : "500");
    add_linalg(c, {gpu ? 10000 : 1000, 32, 32}, gpu ? "10000 x 32" : "1000 x 32");
    if (gpu) add_linalg(c, {100, 256, 256}, "100 x 256");
  }
}

}  // namespace locus::bench
