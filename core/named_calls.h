// Who calls ops, for errors that a device finds after the call has returned:
//   const NamedCalls named("CTCLoss: label");
//   const Tensor emitted = take(log_p, rows);
// gives "CTCLoss: label: take: index 7 is out of bounds ... (found asynchronously on gpu(0))".
#pragma once

#include <utility>

#include <locus/core/noncopyable.h>
#include <locus/core/op.h>

namespace locus {

// Names the ops that this thread calls while the object lives. The innermost object counts. `who`
// lives as long as the program. Replays of compiled calls have the op's name alone.
class NamedCalls : NonCopyable {
 public:
  explicit NamedCalls(const char* who) : outer_(std::exchange(innermost, who)) {}
  ~NamedCalls() { innermost = outer_; }

  // The name that a kernel of the op is launched under. It lives as long as the program.
  static const char* name(const Op& op) {
    if (!innermost) [[likely]]
      return op.name.c_str();
    return with_caller(op);
  }

 private:
  static const char* with_caller(const Op& op);

  static inline constinit thread_local const char* innermost = nullptr;
  const char* const outer_;
};

}  // namespace locus
