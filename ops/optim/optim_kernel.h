// The update rules of the optimizers, each written once for every device.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>

namespace locus {

// The numbers of one SGD step, as MXNet names them.
struct SGDUpdate {
  double lr = 0.01;
  double momentum = 0;
  double wd = 0;              // weight decay
  double rescale_grad = 1;    // 1 / batch size in Trainer::step
  double clip_gradient = -1;  // clips rescale_grad * grad to [-c, c]; negative: not
};

// In the type A that the elements compute in.
template <class A>
struct SGDRule {
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
  LOCUS_HD void operator()(A& w, A g, A& m) const {
    m = momentum * m - lr * (gradient(g) + wd * w);
    w += m;
  }
};

template <class Backend>
constexpr KernelList optim_kernels() {
  KernelList list;
  list.add_each("sgd_update", kFloatDTypes, [](auto d) { return Backend::template sgd_update<d>; });
  return list;
}

}  // namespace locus
