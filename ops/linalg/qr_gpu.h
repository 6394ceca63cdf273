// QR decompositions on a GPU, for kernel functions. Included by *.cu only.
#pragma once

#include <locus/ops/linalg/qr_kernel.h>

namespace locus::cuda {

// The factors q and r of row-major matrices a. The diagonal of r is not negative. If s.columns is
// 0, q is not written. In qr.cu, for float and double.
template <class T>
void decompose_qr(const Call& call, DType d, const QrSizes& s, const T* a, T* q, T* r);

}  // namespace locus::cuda
