#include <locus/ops/named.h>
#include <locus/ops/norm.h>

namespace locus {

void register_norm_names() {
  ops::define(
      "batch_norm(data, gamma, beta, running_mean, running_var, axis: int = 1, "
      "momentum: float = 0.9, epsilon: float = 1e-5, use_global_stats: bool = false)",
      [](const ops::Arguments& a) {
        return batch_norm(a.tensor(0), a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4),
                          {.axis = a["axis"],
                           .momentum = a["momentum"],
                           .epsilon = a["epsilon"],
                           .use_global_stats = a["use_global_stats"]});
      })
      .made_of({"batch_norm", "batch_norm_inference"});
  ops::define("layer_norm(data, gamma, beta, axis: int = -1, epsilon: float = 1e-5)",
              [](const ops::Arguments& a) {
                return layer_norm(a.tensor(0), a.tensor(1), a.tensor(2),
                                  {.axis = a["axis"], .epsilon = a["epsilon"]});
              });
  ops::define(
      "rms_norm(data, gamma, axis: int = -1, epsilon: float = 1e-5)", [](const ops::Arguments& a) {
        return rms_norm(a.tensor(0), a.tensor(1), {.axis = a["axis"], .epsilon = a["epsilon"]});
      });
  ops::define("group_norm(data, gamma, beta, num_groups: int = 1, epsilon: float = 1e-5)",
              [](const ops::Arguments& a) {
                return group_norm(a.tensor(0), a.tensor(1), a.tensor(2),
                                  {.num_groups = a["num_groups"], .epsilon = a["epsilon"]});
              });
  ops::define("instance_norm(data, gamma, beta, axis: int = 1, epsilon: float = 1e-5)",
              [](const ops::Arguments& a) {
                return instance_norm(a.tensor(0), a.tensor(1), a.tensor(2),
                                     {.axis = a["axis"], .epsilon = a["epsilon"]});
              });
}

}  // namespace locus
