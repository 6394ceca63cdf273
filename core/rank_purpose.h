// What collective calls are for. Internal to core and nn.
#pragma once

#include <string>

#include <locus/core/noncopyable.h>

namespace locus::cluster {

// While it lives, this thread's collective calls are for it, and for the one around it: where
// another rank's are for something else they differ, also when the tensors are alike
// (core/cluster.h).
class [[nodiscard]] Purpose : NonCopyable {
 public:
  explicit Purpose(std::string text);
  ~Purpose();

  static const std::string& here();  // "": none

 private:
  std::string outer_;
};

}  // namespace locus::cluster
