// LOCUS_CHECK=nan: reads the result of every op, and throws at the first call that gives NaN.
#pragma once

#include <atomic>
#include <span>

#include <locus/core/noncopyable.h>
#include <locus/core/op.h>

namespace locus {

// Whether LOCUS_CHECK=nan is set. Compiled functions (core/compile.h) then run uncompiled.
bool checks_nan();

// If `result` has NaN, throws ValueError with the op, the number of NaN, the first one, and
// operands that had NaN already. Waits.
void refuse_nan(const Op& op, std::span<const Ref> in, const Tensor& result);

// While it lives, NaN is no error on this thread: for code that looks for NaN.
class NanCheckPause : NonCopyable {
 public:
  NanCheckPause();
  ~NanCheckPause();

 private:
  const bool outer_;
};

// While an object expects overflows, NaN from infinities or NaN is no error in any thread. The
// object's owner looks for overflows (amp::LossScaler).
class OverflowCheck : NonCopyable {
 public:
  ~OverflowCheck() { expect(false); }
  void expect(bool overflows);  // threads: any

 private:
  std::atomic<bool> expects_ = false;
};

}  // namespace locus
