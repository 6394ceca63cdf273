#include <locus/ops/optim.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/op.h>
#include <locus/ops/optim/optim_kernel.h>
#include <locus/ops/optim/optim_samples.h>

namespace locus {

namespace {

// Throws unless an update by these numbers can be a number. Numbers that only the device has pass.
void check_numbers(const auto& u) {
  const auto expect_finite = [](const char* what, double v) {
    if (!std::isfinite(v)) [[unlikely]]
      throw ValueError(what, " ", v, "; expected a finite number");
  };
  expect_finite("lr", u.lr);
  expect_finite("wd", u.wd);
  expect_finite("rescale_grad", u.rescale_grad);
  if (std::isnan(u.clip_gradient)) [[unlikely]]
    throw ValueError("clip_gradient ", u.clip_gradient,
                     "; expected a limit >= 0, or a negative number: no limit");
}

// Inputs are each tensor's weight, gradient and states; outputs its weight and states. Masters, if
// any, are the last states.
template <class R>
DType infer_update(std::span<const Meta> in, const Live<typename R::Numbers>& numbers,
                   std::span<Meta> out) {
  if (!numbers.at) check_numbers(numbers.value);
  const size_t n = in.size() > out.size() ? in.size() - out.size() : 0,
               kinds = n ? in.size() / n : 0;
  const bool masters = kinds == R::kStates + 3;
  if (n == 0 || in.size() != n * kinds || (kinds != R::kStates + 2 && !masters))
    throw ShapeError("expected weight, gradient and ", R::kStates,
                     " states of each tensor, or one more for a master copy, and as many weights "
                     "and states to write");
  if (masters && in[0].dtype != f16 && in[0].dtype != bf16)
    throw DTypeError("master copies of ", name(in[0].dtype), " weights; expected f16 or bf16");
  for (size_t i = 0; i < n; ++i) {
    const Meta& w = in[i * kinds];
    out[i * (kinds - 1)] = w;
    for (size_t k = 1; k < kinds; ++k) {
      const Meta& other = in[i * kinds + k];
      const char* what = k == 1 ? "gradient" : "state";
      const DType dtype = k > 1 && masters ? f32 : w.dtype;
      if (Shape(other) != Shape(w))
        throw ShapeError("tensor ", i, ": expected a ", what, " of the weight's shape ", Shape(w),
                         ", got ", Shape(other));
      if (other.dtype != dtype)
        throw DTypeError("tensor ", i, ": expected a ", what, " of dtype ", name(dtype), ", got ",
                         name(other.dtype));
      if (k > 1) out[i * (kinds - 1) + k - 1] = other;
    }
    if (w.dtype != in[0].dtype)
      throw DTypeError("tensor ", i, " is ", name(w.dtype), ", tensor 0 ", name(in[0].dtype),
                       "; expected one dtype in a call");
  }
  return in[0].dtype;
}

void need_contiguous(const Op& op, const Tensor& t, const char* what, size_t i) {
  if (!t.contiguous())
    throw Error(op.name, ": ", what, " ", i, " ", describe(t),
                " has gaps or another order; expected a contiguous tensor, since it is updated in "
                "place");
}

void update(const Op& op, const Tensors& weights, const Tensors& grads,
            const std::vector<Tensors>& states, const auto& numbers) {
  const size_t n = weights.size();
  if (grads.size() != n ||
      std::ranges::any_of(states, [n](const auto& s) { return s.size() != n; })) {
    std::string lengths = text_of(n, " weights, ", grads.size(), " grads");
    for (const Tensors& s : states) lengths += text_of(", ", s.size(), " states");
    throw Error(op.name, ": ", lengths, "; expected equal numbers");
  }
  if (n == 0) return;
  std::vector<Ref> in, out;
  in.reserve((2 + states.size()) * n);
  out.reserve((1 + states.size()) * n);
  for (size_t i = 0; i < n; ++i) {
    need_contiguous(op, weights[i], "weight", i);
    in.emplace_back(weights[i]);
    in.emplace_back(grads[i]);
    out.emplace_back(weights[i]);
    for (const Tensors& s : states) {
      need_contiguous(op, s[i], "state", i);
      in.emplace_back(s[i]);
      out.emplace_back(s[i]);
    }
  }
  invoke_into(op, std::span<const Ref>(in), std::span<const Ref>(out), numbers);
}

template <class R>
constexpr bool fits(const UpdateOp<typename R::Numbers>& op) {
  int states = 0;
  while (op.state_names[states]) ++states;
  return states == R::kStates && std::string_view(op.name) == R::kName;
}

template <class R, const auto& op>
void define() {
  static_assert(fits<R>(op));
  std::vector<std::string> arguments{"weight", "grad"};
  for (const char* const* s = op.state_names; *s; ++s) arguments.emplace_back(*s);
  OpDef<Live<typename R::Numbers>>(op.name, std::move(arguments))
      .inputs(2 + R::kStates, Op::kAny)
      .outputs(Op::kAny)
      .template infer<&infer_update<R>>()
      .in_place()
      .no_gradient("updates in place, outside the graph")
      .template samples<&optim_samples::samples<typename R::Numbers, op>>();
}

}  // namespace

template <class Numbers>
void UpdateOp<Numbers>::run(const Tensors& weights, const Tensors& grads,
                            const std::vector<Tensors>& s, const Live<Numbers>& numbers) const {
  update(OpRef<Live<Numbers>>(name), weights, grads, s, numbers);
}
template struct UpdateOp<SGDUpdate>;
template struct UpdateOp<AdamUpdate>;
template struct UpdateOp<AdamWUpdate>;
template struct UpdateOp<RMSPropUpdate>;
template struct UpdateOp<AdaGradUpdate>;
template struct UpdateOp<AdaDeltaUpdate>;
template struct UpdateOp<NadamUpdate>;
template struct UpdateOp<FtrlUpdate>;
template struct UpdateOp<SignumUpdate>;
template struct UpdateOp<LionUpdate>;
template struct UpdateOp<LambUpdate>;
template struct UpdateOp<LarsUpdate>;

void register_optim() {
  define<SGDRule, sgd_update>();
  define<SGDMomentumRule, sgd_mom_update>();
  define<NAGRule, nag_mom_update>();
  define<AdamRule, adam_update>();
  define<AdamWRule, adamw_update>();
  define<RMSPropRule, rmsprop_update>();
  define<RMSPropAlexRule, rmspropalex_update>();
  define<AdaGradRule, adagrad_update>();
  define<AdaDeltaRule, adadelta_update>();
  define<AdamaxRule, adamax_update>();
  define<NadamRule, nadam_update>();
  define<FtrlRule, ftrl_update>();
  define<SignSGDRule, signsgd_update>();
  define<SignumRule, signum_update>();
  define<LionRule, lion_update>();
  define<LambRule, lamb_update>();
  define<LarsRule, lars_update>();
}

}  // namespace locus
