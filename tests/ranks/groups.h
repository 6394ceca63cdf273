// Groups for tests of collectives, and parts with simple sums.
#pragma once

#include <algorithm>
#include <vector>

#include <locus/core/group.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {

inline std::vector<Context> hosts(int n) {
  std::vector<Context> list;
  for (int i = 0; i < n; ++i) list.push_back(cpu(i));
  return list;
}

// 1 to 5 contexts of the host, and 1 to all GPUs.
inline std::vector<Group> groups() {
  std::vector<Group> all;
  for (int n = 1; n <= 5; ++n) all.emplace_back(hosts(n));
  for (int n = 1; n <= num_gpus(); ++n) all.emplace_back(gpus(n));
  return all;
}

// n contexts of each kind that has n.
inline std::vector<std::vector<Context>> places(int n) {
  std::vector<std::vector<Context>> all{hosts(n)};
  if (num_gpus() >= n) all.push_back(gpus(n));
  return all;
}

// Four contexts of the host, and up to four GPUs if there are several.
inline std::vector<std::vector<Context>> fours() {
  std::vector<std::vector<Context>> all{hosts(4)};
  if (num_gpus() >= 2) all.push_back(gpus(std::min(num_gpus(), 4)));
  return all;
}

// A whole number per element, different for each context.
inline double element(int context, int64_t at) {
  return static_cast<double>((context * 7 + at * 3) % 11 - 5);
}

inline Tensors parts(const Group& g, const Shape& shape, DType d = f32) {
  Tensors all;
  for (int i = 0; i < g.size(); ++i) {
    std::vector<double> v(static_cast<size_t>(shape.size()));
    for (size_t k = 0; k < v.size(); ++k) v[k] = element(i, static_cast<int64_t>(k));
    all.push_back(array(v).reshape(shape).astype(d).copyto(g[i]));
  }
  return all;
}

inline double folded(ReduceOp op, int n, int64_t at) {
  double all = element(0, at);
  for (int i = 1; i < n; ++i) {
    const double v = element(i, at);
    all = op == ReduceOp::max    ? std::max(all, v)
          : op == ReduceOp::min  ? std::min(all, v)
          : op == ReduceOp::prod ? all * v
                                 : all + v;
  }
  return op == ReduceOp::mean ? all / n : all;
}

}  // namespace locus::test
