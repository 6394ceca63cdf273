#include <locus/core/error.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

namespace locus {
namespace {

template <class E, class... Others>
std::exception_ptr reworded_as(const std::function<std::string(const std::string&)>& edit) {
  try {
    throw;
  } catch (const E& e) {
    if (typeid(e) != typeid(E)) return std::current_exception();  // the program's type
    return std::make_exception_ptr(E(edit(e.what())));
  } catch (...) {
    if constexpr (sizeof...(Others) > 0) return reworded_as<Others...>(edit);
    return std::current_exception();
  }
}

}  // namespace

std::exception_ptr reworded(const std::function<std::string(const std::string&)>& edit) {
  return reworded_as<ContextMismatch, ShapeError, DTypeError, IndexError, ValueError, EmptyTensor,
                     OutOfMemory, DeviceError, CaptureError, UnsupportedOnContext, SourceError,
                     FormatError, Error>(edit);
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type.name();
}

void detail::throw_empty(std::string_view who, std::string_view what) {
  throw EmptyTensor(
      who, who.empty() ? "" : ": ", what,
      " is an empty Tensor (default-constructed or moved from); assign a tensor to it "
      "first");
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(message, " (", condition, " failed at ", file, ":", line, ")");
}

}  // namespace locus
