// Runs each program of the documentation as a function, on every pair of contexts of the machine.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <locus/locus.h>
#include "tests/support/contexts.h"

namespace locus::test {

template <class T>
std::string printed(const T& x) {
  std::ostringstream os;
  os << x;
  return os.str();
}

// The documentation's gpu(0) and gpu(1), or host contexts with the same errors.
struct Pair {
  Context first, second;
};
inline std::vector<Pair> pairs() {
  std::vector<Pair> list{{cpu(0), cpu(1)}, {cpu(1), cpu(0)}};
  if (num_gpus() > 0) list.push_back({gpu(0), cpu(0)});
  if (num_gpus() > 1) list.push_back({gpu(0), gpu(1)});
  return list;
}

class Api : public testing::TestWithParam<Pair> {
 protected:
  Context c0 = GetParam().first, c1 = GetParam().second;
  std::string at(const std::string& text) const {  // "@0" is the first context
    std::string s = text;
    for (size_t i; (i = s.find("@0")) != std::string::npos;) s.replace(i, 2, "@" + to_string(c0));
    for (size_t i; (i = s.find("@1")) != std::string::npos;) s.replace(i, 2, "@" + to_string(c1));
    return s;
  }
};
inline std::string name_of(const testing::TestParamInfo<Pair>& p) {
  std::string s = to_string(p.param.first) + "_" + to_string(p.param.second);
  std::erase_if(s, [](char ch) { return ch == '(' || ch == ')'; });
  return s;
}

}  // namespace locus::test
