// The contexts that tests run on, and exact access to tensors' values.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <locus/core/context.h>
#include <locus/core/device.h>
#include <locus/core/tensor.h>

namespace locus::test {

// cpu(0) and all GPUs, emulated ones included.
inline std::vector<Context> contexts() {
  std::vector<Context> list{cpu(0)};
  for (Context c : gpus(num_gpus())) list.push_back(c);
  return list;
}

// At least two contexts whose tensors cannot be mixed: contexts() and cpu(1).
inline std::vector<Context> distinct_contexts() {
  std::vector<Context> list = contexts();
  list.insert(list.begin() + 1, cpu(1));
  return list;
}

inline bool emulated_gpus() { return num_gpus() > 0 && context_info(gpu(0)).emulated; }

// cpu(0), the first and the last GPU, for walks over tables.
inline std::vector<Context> end_contexts() {
  std::vector<Context> list = contexts();
  if (list.size() > 3) list.erase(list.begin() + 2, list.end() - 1);
  return list;
}

// One context per set of kernels, for long numeric tests. An emulated GPU runs cpu(0)'s kernels.
inline std::vector<Context> kernel_contexts() {
  std::vector<Context> list{cpu(0)};
  if (num_gpus() > 0 && !emulated_gpus()) list.push_back(gpu(0));
  return list;
}

// Skip the test without n GPUs, real or emulated; without emulated GPUs.
#define LOCUS_NEEDS_ANY_GPUS(n)                                                  \
  if (locus::num_gpus() < (n))                                                   \
  GTEST_SKIP() << "needs " << (n)                                                \
               << " GPU(s), real or emulated (LOCUS_EMULATED_GPUS=4); this run " \
               << "has " << locus::num_gpus()
#define LOCUS_NEEDS_EMULATED_GPUS() \
  if (!locus::test::emulated_gpus()) GTEST_SKIP() << "needs emulated GPUs (LOCUS_EMULATED_GPUS=4)"
#define LOCUS_NEEDS_POOL() \
  if (!locus::pool_caching()) GTEST_SKIP() << "needs the caching pool (LOCUS_POOL=on)"

inline std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

// The message of the exception of type E that f throws. If f throws none, the test fails.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no exception";
  return "";
}

}  // namespace locus::test
