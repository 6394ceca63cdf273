// Every failure of Locus is an exception of one of these types. The text names the operation, the
// operands with context, shape and dtype, what was expected, and what to do about it. If the call
// takes a Caller (caller.h), the text ends with the line of the call: "... (at train.cc:152)".
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
  // The text in pieces, as text_of() takes them.
  template <class First, class... Rest>
  explicit Error(const First& first, const Rest&... rest)
      : std::runtime_error(text_of(first, rest...)) {}
};

// Operands on different contexts. Thrown before anything is allocated or launched.
class ContextMismatch : public Error {
  using Error::Error;
};
class ShapeError : public Error {
  using Error::Error;
};
class DTypeError : public Error {
  using Error::Error;
};
// An index or a class label outside the range it indexes.
class IndexError : public Error {
  using Error::Error;
};
// An attribute, option or number outside what its op or object accepts.
class ValueError : public Error {
  using Error::Error;
};
// A Tensor that was default-constructed or moved from was used.
class EmptyTensor : public Error {
  using Error::Error;
};
namespace detail {
// EmptyTensor: `what` of the call `who` is one. `who` may be empty when a caller adds the name.
[[noreturn]] void throw_empty(std::string_view who, std::string_view what);
}  // namespace detail
// A device that is not there, or that failed.
class DeviceError : public Error {
  using Error::Error;
};
// The program can go on: nothing was changed, and whatever is freed can be used again.
class OutOfMemory : public Error {
  using Error::Error;
};
// What a replayed graph could not repeat was asked for while one was recorded (capture.h).
class CaptureError : public Error {
  using Error::Error;
};
// A file that is not what it should be. The text names the file.
class FormatError : public Error {
  using Error::Error;
};

// Steps that are all taken, whichever of them fails; then the first failure is thrown.
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

// While an exception is handled: goes on with it behind a clean-up, whatever that throws.
[[noreturn]] void rethrow_behind(const auto& clean_up) {
  try {
    clean_up();
  } catch (...) {  // the first one tells
  }
  throw;
}

// The exception being handled, of the same type, with the text that `edit` makes of its own.
std::exception_ptr reworded(const std::function<std::string(const std::string& text)>& edit);

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace locus

// An invariant the caller must keep. The message, in pieces, is evaluated only on failure.
#define LOCUS_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::locus::check_failed(__FILE__, __LINE__, #condition, ::locus::text_of(__VA_ARGS__)); \
  } while (false)
