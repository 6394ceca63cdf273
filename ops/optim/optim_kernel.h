// The update rules of the optimizers, each written once for every device.
//
// A rule is made of its op's numbers, in the type A that elements compute in. It is called with a
// weight, its gradient and kStates states, and changes the weight and the states. A new optimizer
// is a rule, a line below, and an op in optim.cc; multi_tensor in optim_cpu.cc and optim.cu updates
// any number of tensors by it at once.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/optim_numbers.h>

namespace locus {

template <class A>
struct SGDRule {
  using Numbers = SGDUpdate;
  static constexpr int kStates = 0;
  A lr, momentum, wd, rescale, clip;

  LOCUS_HD explicit SGDRule(const SGDUpdate& u)
      : lr(static_cast<A>(u.lr)),
        momentum(static_cast<A>(u.momentum)),
        wd(static_cast<A>(u.wd)),
        rescale(static_cast<A>(u.rescale_grad)),
        clip(static_cast<A>(u.clip_gradient)) {}

  LOCUS_HD A gradient(A g) const {  // NaN passes
    g = rescale * g;
    if (clip >= A(0)) g = g > clip ? clip : g < -clip ? -clip : g;
    return g;
  }
  LOCUS_HD void operator()(A& w, A g) const { w = (A(1) - lr * wd) * w - lr * gradient(g); }
};

template <class A>
struct SGDMomentumRule : SGDRule<A> {
  static constexpr int kStates = 1;
  using SGDRule<A>::SGDRule;

  LOCUS_HD void operator()(A& w, A g, A& m) const {
    m = this->momentum * m - this->lr * (this->gradient(g) + this->wd * w);
    w += m;
  }
};

template <class Backend>
constexpr KernelList optim_kernels() {
  KernelList list;
  list.add_each("sgd_update", kFloatDTypes,
                [](auto d) { return Backend::template multi_tensor<CppTypeOf<d>, SGDRule>; });
  list.add_each("sgd_mom_update", kFloatDTypes, [](auto d) {
    return Backend::template multi_tensor<CppTypeOf<d>, SGDMomentumRule>;
  });
  return list;
}

}  // namespace locus
