// Steps of fused kernels, which compute as the kernels of one formula do. Free of the standard
// library.
#pragma once

#include <locus/ops/jit/element.h>

namespace locus::fusion {

// The type in which kernels of one formula compute elements of T.
#ifdef __CUDACC__
template <class T>
using Wide = Promoted<T>;
#else
template <class T>
using Wide = Compute<T>;
#endif

// v after a store as T and a load.
template <class T, class V>
LOCUS_HD Compute<T> stored(V v) {
  return convert<Compute<T>>(convert<T>(v));
}

// The formula's result, an element of T. Operands come as Compute<their type>.
template <class T, class F, class... X>
LOCUS_HD Compute<T> apply(const F& f, X... x) {
  return stored<T>(static_cast<Wide<T>>(f.apply(static_cast<Wide<X>>(x)...)));
}

}  // namespace locus::fusion
