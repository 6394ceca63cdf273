#include <vector>

#include <locus/ops/collective.h>
#include <locus/ops/named.h>

namespace locus {

namespace {

// The contexts of the parts, in order.
Group group_of(const Tensors& parts) {
  std::vector<Context> contexts;
  for (const Tensor& part : parts) contexts.push_back(part.context());
  return contexts;
}

}  // namespace

// The group of a call is that of the parts' contexts.
void register_collective_names() {
  ops::define("all_reduce(*data, op: sum|mean|max|min|prod = sum) -> tensors",
              [](const ops::Arguments& a) {
                const Tensors parts = a.tensors();
                return all_reduce(group_of(parts), parts, {.op = a["op"]});
              })
      .made_of({"all_reduce", "divide"});
  ops::define("reduce(*data, root: int = 0, op: sum|mean|max|min|prod = sum)",
              [](const ops::Arguments& a) {
                const Tensors parts = a.tensors();
                return reduce(group_of(parts), parts, a["root"], a["op"]);
              });
  ops::define("reduce_scatter(*data, op: sum|mean|max|min|prod = sum, axis: int = 0) -> tensors",
              [](const ops::Arguments& a) {
                const Tensors parts = a.tensors();
                return reduce_scatter(group_of(parts), parts, {.op = a["op"], .axis = a["axis"]});
              });
  ops::define("all_gather(*data, axis: int = 0) -> tensors", [](const ops::Arguments& a) {
    const Tensors parts = a.tensors();
    return all_gather(group_of(parts), parts, {.axis = a["axis"]});
  });
  ops::define("all_to_all(*data, split_axis: int = 0, concat_axis: int = 0) -> tensors",
              [](const ops::Arguments& a) {
                const Tensors parts = a.tensors();
                return all_to_all(group_of(parts), parts,
                                  {.split_axis = a["split_axis"], .concat_axis = a["concat_axis"]});
              });
  ops::define("send_recv(*data, sources: ints) -> tensors", [](const ops::Arguments& a) {
    const Tensors parts = a.tensors();
    return send_recv(group_of(parts), parts, a["sources"]);
  }).made_of({"copyto"});
}

}  // namespace locus
