// Names of callers of ops, for errors that a device finds after the call has returned:
//   const NamedCalls named("CTCLoss", "label");
//   const Tensor emitted = take(log_p, rows);
// gives "CTCLoss: label: take: index 7 is out of bounds ... (found asynchronously on gpu(0); ...)".
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <locus/core/noncopyable.h>
#include <locus/core/op.h>

namespace locus {

// While it lives, ops that this thread calls are named after their caller and the caller's operand.
// The innermost object counts.
class NamedCalls : NonCopyable {
 public:
  NamedCalls(const char* who, const char* what)
      : who_(who), what_(what), outer_(std::exchange(innermost, this)) {}
  ~NamedCalls() { innermost = outer_; }

  // The name under which the op's kernels are launched. Valid as long as the program.
  static const char* name(const Op& op) {
    if (!innermost) [[likely]]
      return op.name.c_str();
    return innermost->with(op);
  }
  // An error's text after such a name. The text may begin with the op's name already, or with its
  // first or last words: gamma, for random_gamma.
  static std::string in_front(std::string_view name, std::string_view text);

 private:
  const char* with(const Op& op) const;

  static inline constinit thread_local const NamedCalls* innermost = nullptr;
  const char* const who_;
  const char* const what_;
  const NamedCalls* const outer_;
};

// The end of the text of an error found later: the program's line, where it waits, is not that of
// the call. "" with LOCUS_SYNC=1.
std::string found_later(Context c);

}  // namespace locus
