#include <array>
#include <bit>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <locus/ops/named.h>
#include <locus/ops/optim.h>

namespace locus {

namespace {

// Names of a function's numbers, separated by blanks, in the order of the fields.
constexpr const char *kSGD = "lr momentum wd rescale_grad clip_gradient",
                     *kAdam = "lr beta1 beta2 epsilon wd rescale_grad clip_gradient",
                     *kRMSProp =
                         "lr gamma1 gamma2 epsilon wd rescale_grad clip_gradient clip_weights",
                     *kSignum = "lr momentum wd rescale_grad clip_gradient wd_lh";

// NAME(weight, grad, states, numbers): updates one weight and its states in place. The results are
// the weight and the states.
template <class Numbers>
void define_update(const UpdateOp<Numbers>& op, const char* numbers) {
  constexpr size_t kCount = sizeof(Numbers) / sizeof(double);
  using Doubles = std::array<double, kCount>;
  std::istringstream words(numbers);
  const std::vector<std::string> names{std::istream_iterator<std::string>(words), {}};
  LOCUS_CHECK(names.size() == kCount, op.name, ": as many names as numbers");
  std::string signature = text_of(op.name, "(weight, grad");
  int states = 0;
  for (; op.state_names[states]; ++states) signature += text_of(", ", op.state_names[states]);
  const auto fallbacks = std::bit_cast<Doubles>(Numbers());
  for (size_t i = 0; i < kCount; ++i)
    signature += text_of(", ", names[i], ": float = ", fallbacks[i]);
  ops::define(text_of(signature, ") -> ", states + 1),
              [&op, names, states](const ops::Arguments& a) {
                Doubles values;
                for (size_t i = 0; i < kCount; ++i) values[i] = a[names[i]];
                std::vector<Tensors> lists;
                Tensors written{a.tensor(0)};
                for (int k = 0; k < states; ++k) {
                  written.push_back(a.tensor(static_cast<size_t>(k) + 2));
                  lists.push_back({written.back()});
                }
                op({a.tensor(0)}, {a.tensor(1)}, lists, std::bit_cast<Numbers>(values));
                return written;
              });
}

}  // namespace

void register_optim_names() {
  define_update(sgd_update, kSGD);
  define_update(sgd_mom_update, kSGD);
  define_update(nag_mom_update, kSGD);
  define_update(adam_update, kAdam);
  define_update(adamw_update, "lr eta beta1 beta2 epsilon wd rescale_grad clip_gradient");
  define_update(rmsprop_update, kRMSProp);
  define_update(rmspropalex_update, kRMSProp);
  define_update(adagrad_update, "lr epsilon wd rescale_grad clip_gradient");
  define_update(adadelta_update, "lr rho epsilon wd rescale_grad clip_gradient");
  define_update(adamax_update, kAdam);
  define_update(nadam_update,
                "lr beta1 beta2 epsilon wd rescale_grad clip_gradient momentum next_momentum "
                "schedule correction2");
  define_update(ftrl_update, "lr lamda1 beta wd rescale_grad clip_gradient");
  define_update(signsgd_update, kSignum);
  define_update(signum_update, kSignum);
  define_update(lion_update, "lr beta1 beta2 wd rescale_grad clip_gradient");
  define_update(lamb_update,
                "lr beta1 beta2 epsilon wd rescale_grad clip_gradient correction1 correction2 "
                "lower_bound upper_bound");
  define_update(lars_update, "lr momentum eta epsilon wd rescale_grad clip_gradient");

  ops::define("multi_sum_sq(*data)",
              [](const ops::Arguments& a) { return multi_sum_sq(a.tensors()); });
  ops::define("multi_all_finite(*data)",
              [](const ops::Arguments& a) { return multi_all_finite(a.tensors()); });
  // These change their inputs, which are the results, too.
  ops::define("multi_clip(*data, limit: float) -> tensors", [](const ops::Arguments& a) {
    multi_clip(a.tensors(), a["limit"]);
    return a.tensors();
  });
  ops::define("multi_clip_norm(*data, norm: tensor, max_norm: float) -> tensors",
              [](const ops::Arguments& a) {
                multi_clip_norm(a.tensors(), a["norm"], a["max_norm"]);
                return a.tensors();
              })
      .made_of({"multi_clip"});
}

}  // namespace locus
