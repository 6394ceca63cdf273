// Who calls ops, for errors that a device finds after the call has returned:
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

// Names the ops that this thread calls while the object lives, by who calls them and which operand
// of the caller they work on. The innermost object counts.
class NamedCalls : NonCopyable {
 public:
  NamedCalls(const char* who, const char* what)
      : who_(who), what_(what), outer_(std::exchange(innermost, this)) {}
  ~NamedCalls() { innermost = outer_; }

  // The name that a kernel of the op is launched under. It lives as long as the program.
  static const char* name(const Op& op) {
    if (!innermost) [[likely]]
      return op.name.c_str();
    return innermost->with(op);
  }
  // An error's text behind such a name. The text may begin with the op's name already.
  static std::string in_front(std::string_view name, std::string_view text);

 private:
  const char* with(const Op& op) const;

  static inline constinit thread_local const NamedCalls* innermost = nullptr;
  const char* const who_;
  const char* const what_;
  const NamedCalls* const outer_;
};

// The end of an error's text that a device found after the call had returned: the line at which the
// program waits is not that of the call. "" with LOCUS_SYNC=1, where it is.
std::string found_later(Context c);

}  // namespace locus
