// Exception types. Failures throw one; cluster.h lists failures that end the process instead. The
// text names the operation, the operands with context, shape and dtype, what was expected, and what
// to do. If the call takes a Caller (caller.h), the text ends with the line of the call: "... (at
// train.cc:152)".
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>

#include <locus/core/base/text.h>

namespace locus {

// The name of a type, as C++ spells it.
std::string type_name(const std::type_info& type);

class Error : public std::runtime_error {
 public:
  // Pieces of the text, as for text_of().
  template <class First, class... Rest>
  explicit Error(const First& first, const Rest&... rest)
      : std::runtime_error(text_of(first, rest...)) {}
};

// Operands on different contexts. Ops throw it before they allocate or launch.
class ContextMismatch : public Error {
  using Error::Error;
};
class ShapeError : public Error {
  using Error::Error;
};
class DTypeError : public Error {
  using Error::Error;
};
// An index or a class label out of range.
class IndexError : public Error {
  using Error::Error;
};
// An attribute, option or number that its op or object does not accept.
class ValueError : public Error {
  using Error::Error;
};
// A Tensor that was default-constructed or moved from was used.
class EmptyTensor : public Error {
  using Error::Error;
};
namespace detail {
// Throws EmptyTensor: `what` of the call `who` is empty. `who` may be "" if a caller adds the name.
[[noreturn]] void throw_empty(std::string_view who, std::string_view what);
}  // namespace detail
// A device does not exist, or has failed.
class DeviceError : public Error {
  using Error::Error;
};
// The program can continue, and freed memory can be reused.
class OutOfMemory : public Error {
  using Error::Error;
};
// An operation that cannot be replayed was called during recording (capture.h).
class CaptureError : public Error {
  using Error::Error;
};
// The context has no compiler, or runs no such kernels.
class UnsupportedOnContext : public Error {
  using Error::Error;
};
// Source does not compile. The text has the compiler's messages.
class SourceError : public Error {
  using Error::Error;
};
// A file has invalid content. The text names the file.
class FormatError : public Error {
  using Error::Error;
};

// Runs all steps even if some throw. rethrow() throws the first exception.
class FirstFailure {
 public:
  void run(const auto& step) {
    try {
      step();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }
  explicit operator bool() const { return failure_ != nullptr; }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

// In a catch block: runs the clean-up, ignores its exceptions, and rethrows the current one.
[[noreturn]] void rethrow_behind(const auto& clean_up) {
  try {
    clean_up();
  } catch (...) {  // the current one matters
  }
  throw;
}

// The exception being handled, with the same type and the text edit(text).
std::exception_ptr reworded(const std::function<std::string(const std::string& text)>& edit);

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace locus

// Checks an invariant that the caller must keep. Evaluates the message pieces only on failure.
#define LOCUS_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::locus::check_failed(__FILE__, __LINE__, #condition, ::locus::text_of(__VA_ARGS__)); \
  } while (false)
