// Times calls of ops by name on cpu(0) for numpy_calls/compare.py. Standard input has lines of
// JSON, and each gets a line of standard output:
//
//   {"op": "sort", "inputs": [{"dtype": "f32", "shape": [1000], "file": "x.bin"}],
//    "attributes": {"axis": 0}}     loads the inputs, calls once, and prints "ready" or the error
//   3                               repeats the call three times and prints the microseconds of one
//
// An input or an attribute is a number, null, or a tensor as above. Attributes may be texts and
// lists of numbers, too. A file has the elements in row-major order.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include <locus/ops/named.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

using nlohmann::json;

Tensor load(const json& j) {
  const Tensor x = invoke("empty", {},
                          {{"shape", j.at("shape").get<std::vector<int64_t>>()},
                           {"dtype", j.at("dtype").get<std::string>()}});
  const std::string path = j.at("file");
  std::ifstream file(path, std::ios::binary);
  file.read(static_cast<char*>(x.data_ptr()), x.size() * size_of(x.dtype()));
  if (!file) throw std::runtime_error("cannot read " + path);
  return x;
}

Scalar number(const json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  return j.get<double>();
}

ops::Value value(const json& j) {
  if (j.is_null()) return {};
  if (j.is_string()) return j.get<std::string>();
  if (j.is_object()) return load(j);
  if (!j.is_array()) return number(j);
  ops::Value::Numbers list;
  for (const json& item : j) list.push_back(number(item));
  return list;
}

ops::Input input(const json& j) {
  if (j.is_null()) return Tensor();
  if (j.is_object()) return load(j);
  return number(j);
}

std::function<void()> read_call(const json& j) {
  std::vector<ops::Input> inputs;
  for (const json& item : j.at("inputs")) inputs.push_back(input(item));
  ops::Attributes attributes;
  for (const auto& [name, item] : j.at("attributes").items())
    attributes.push_back({name, value(item)});
  return [op = j.at("op").get<std::string>(), all = ops::Inputs(inputs), attributes] {
    invoke(op, all, attributes);
  };
}

}  // namespace

void serve_calls() {
  const ContextScope scope(cpu(0));
  std::function<void()> call;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const json j = json::parse(line);
      if (j.is_object()) {
        call = read_call(j);
        call();
        std::puts("ready");
      } else {
        const int calls = j.get<int>();
        const double time = timed([&] {
          for (int i = 0; i < calls; ++i) call();
          wait_all();
        });
        std::printf("%.3f\n", time * 1e6 / calls);
      }
    } catch (const std::exception& e) {
      std::printf("error: %s\n", e.what());
    }
    std::fflush(stdout);
  }
}

}  // namespace locus::bench
