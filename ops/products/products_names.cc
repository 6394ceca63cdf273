#include <string>
#include <vector>

#include <locus/core/error.h>
#include <locus/ops/einsum.h>
#include <locus/ops/named.h>
#include <locus/ops/products.h>

namespace locus {
namespace {

Tensor call_tensordot(const ops::Arguments& a) {
  const bool lacks_a = a["axes_a"].none(), lacks_b = a["axes_b"].none();
  if (lacks_a && lacks_b) return tensordot(a.tensor(0), a.tensor(1), int64_t{a["axes"]});
  if (lacks_a || lacks_b)
    throw ValueError("tensordot: ", lacks_a ? "axes_a" : "axes_b",
                     " is none; expected axes_a and axes_b, or neither");
  const std::vector<int> axes_a = a["axes_a"], axes_b = a["axes_b"];
  return tensordot(a.tensor(0), a.tensor(1), std::span<const int>(axes_a),
                   std::span<const int>(axes_b));
}

using Binary = Tensor (*)(const Tensor&, const Tensor&, Caller);
ops::Definition define_binary(const char* name, Binary f) {
  return ops::define(text_of(name, "(a, b)"), [f](const ops::Arguments& a) {
    return f(a.tensor(0), a.tensor(1), Caller::here());
  });
}

}  // namespace

void register_products_names() {
  const std::vector<std::string> contraction_ops = {"multiply", "matmul", "not_equal", "reshape",
                                                    "transpose"};
  std::vector<std::string> einsum_ops = contraction_ops;
  einsum_ops.insert(einsum_ops.end(), {"diagonal", "sum", "any"});
  ops::define("einsum(*operands, subscripts: text)", [](const ops::Arguments& a) {
    const std::string_view subscripts = a["subscripts"];
    return einsum(subscripts, a.tensors());
  }).made_of(einsum_ops);
  ops::define("tensordot(a, b, axes: int = 2, axes_a: ints = none, axes_b: ints = none)",
              call_tensordot)
      .made_of(contraction_ops);
  define_binary("inner", inner).made_of(contraction_ops);
  define_binary("vdot", vdot).made_of(contraction_ops);
  define_binary("outer", outer).made_of({"multiply", "reshape"});
  define_binary("kron", kron).made_of({"multiply", "reshape", "broadcast_to"});
  ops::define("cross(a, b, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int = none)",
              [](const ops::Arguments& a) {
                return cross(a.tensor(0), a.tensor(1),
                             {.axisa = a["axisa"],
                              .axisb = a["axisb"],
                              .axisc = a["axisc"],
                              .axis = a["axis"].optional<int64_t>()});
              })
      .made_of({"multiply", "subtract", "roll", "transpose"});
  ops::define("trace(data, offset: int = 0, axis1: int = 0, axis2: int = 1)",
              [](const ops::Arguments& a) {
                return trace(a.tensor(0), a["offset"], a["axis1"], a["axis2"]);
              })
      .made_of({"sum", "diagonal"});
  ops::define("matrix_power(x, n: int)", [](const ops::Arguments& a) {
    return matrix_power(a.tensor(0), a["n"]);
  }).made_of({"matmul", "not_equal", "fill", "copy", "broadcast_to", "solve", "any"});
  ops::define("multi_dot(*matrices)", [](const ops::Arguments& a) {
    return multi_dot(a.tensors());
  }).made_of({"matmul", "not_equal", "reshape"});
}

}  // namespace locus
