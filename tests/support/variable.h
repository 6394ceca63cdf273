#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include <locus/core/noncopyable.h>

namespace locus::test {

// Sets an environment variable for a scope.
class Variable : NonCopyable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace locus::test
