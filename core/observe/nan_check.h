// LOCUS_CHECK=nan: every op's result is read, and the first that has NaN is an error at its call.
#pragma once

#include <atomic>
#include <span>

#include <locus/core/noncopyable.h>
#include <locus/core/op.h>

namespace locus {

// Whether the environment asks for it. What would be compiled (core/compile.h) then runs as it is.
bool checks_nan();

// Throws ValueError naming the op, how many elements of `result` are NaN, the first of them, and
// which operands had NaN already. Waits.
void refuse_nan(const Op& op, std::span<const Ref> in, const Tensor& result);

// While it lives, NaN is no error on this thread: for what asks about NaN.
class NanCheckPause : NonCopyable {
 public:
  NanCheckPause();
  ~NanCheckPause();

 private:
  const bool outer_;
};

// While one expects overflows, in any thread, NaN that comes of infinities or of NaN is no error:
// whoever expects them looks for them (amp::LossScaler).
class OverflowCheck : NonCopyable {
 public:
  ~OverflowCheck() { expect(false); }
  void expect(bool overflows);  // threads: any

 private:
  std::atomic<bool> expects_ = false;
};

}  // namespace locus
