#include <locus/ops/named.h>
#include <locus/ops/order.h>

namespace locus {
namespace {

Kth kth_of(const ops::Arguments& a) {
  const std::vector<int64_t> kth = a["kth"];
  return Kth(std::span(kth));
}
std::optional<int64_t> axis_in(const ops::Arguments& a) { return a["axis"].optional<int64_t>(); }

}  // namespace

void register_order_names() {
  ops::define("sort(data, axis: int|none = -1, descending: bool = false)",
              [](const ops::Arguments& a) {
                return sort(a.tensor(0), {.axis = axis_in(a), .descending = a["descending"]});
              })
      .made_of({"sort", "topk", "reshape"});
  ops::define("argsort(data, axis: int|none = -1, descending: bool = false)",
              [](const ops::Arguments& a) {
                return argsort(a.tensor(0), {.axis = axis_in(a), .descending = a["descending"]});
              })
      .made_of({"argsort", "reshape"})
      .no_gradient("the results are positions");
  ops::define("lexsort(*keys, axis: int = -1)",
              [](const ops::Arguments& a) {
                const Tensors keys = a.tensors();
                return lexsort(keys.size() == 1 ? detail::entries_as_keys(keys[0]) : keys,
                               {.axis = a["axis"]});
              })
      .made_of({"argsort", "take"})
      .no_gradient("the results are positions");
  ops::define("topk(data, k: int, axis: int|none = -1, largest: bool = true) -> 2",
              [](const ops::Arguments& a) {
                Topk t = topk(a.tensor(0), a["k"], {.axis = axis_in(a), .largest = a["largest"]});
                return std::pair(std::move(t.values), std::move(t.indices));
              })
      .made_of({"topk", "reshape"});
  ops::define("partition(data, kth: ints, axis: int|none = -1)", [](const ops::Arguments& a) {
    return partition(a.tensor(0), kth_of(a), {.axis = axis_in(a)});
  }).made_of({"partition", "reshape", "sort", "topk"});
  ops::define("argpartition(data, kth: ints, axis: int|none = -1)",
              [](const ops::Arguments& a) {
                return argpartition(a.tensor(0), kth_of(a), {.axis = axis_in(a)});
              })
      .made_of({"argpartition", "reshape", "argsort"})
      .no_gradient("the results are positions");
}

}  // namespace locus
