// A call of a function by its name (ops/named.h), and the same call of the function itself.
#pragma once

#include <functional>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include <locus/ops/named.h>

namespace locus::test {

// An input: floats lie within (.2, 2), integers are 0, 1 or 2.
struct NamedInput {
  NamedInput(std::initializer_list<Dim> lengths, DType d = f32) : shape(lengths), dtype(d) {}
  Shape shape;
  DType dtype;
};

struct NamedCall {
  std::string name;
  std::vector<NamedInput> inputs;
  ops::Attributes attributes;
  // x: the inputs; c: where they live.
  std::function<ops::Result(const Tensors& x, Context c)> call;
};
inline void PrintTo(const NamedCall& f, std::ostream* os) { *os << f.name; }

using NamedCalls = std::vector<NamedCall>;

}  // namespace locus::test
