#include <locus/ops/copy.h>
#include <locus/ops/named.h>

namespace locus {

void register_copy_names() {
  ops::define("copy(data)", [](const ops::Arguments& a) { return copy(a.tensor(0)); });
  ops::define("contiguous(data)", [](const ops::Arguments& a) { return contiguous(a.tensor(0)); });
  ops::define("cast(data, dtype: dtype)", [](const ops::Arguments& a) {
    return cast(a.tensor(0), a["dtype"]);
  }).made_of({"copy"});
  ops::define("copyto(data, ctx: context)", [](const ops::Arguments& a) {
    const Context to = a["ctx"];
    return a.tensor(0).copyto(to);
  });
  ops::define("as_in_context(data, ctx: context)", [](const ops::Arguments& a) {
    return a.tensor(0).as_in_context(a["ctx"]);
  }).made_of({"copyto"});
  ops::alias("astype", "cast");
}

}  // namespace locus
