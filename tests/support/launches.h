// Counts an op's launches on the CPU in f32: replaces its kernel.
#pragma once

#include <locus/core/op.h>

namespace locus::test {

// One at a time for each I.
template <int I = 0>
class Launches {
 public:
  explicit Launches(const char* op) : op_(op), before_(get_op(op).kernel(DeviceType::cpu, f32)) {
    kernel = before_;
    count = 0;
    set_kernel(op, DeviceType::cpu, f32, [](const Call& call) {
      ++count;
      kernel(call);
    });
  }
  ~Launches() { set_kernel(op_, DeviceType::cpu, f32, before_); }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  int operator()() const { return count; }

 private:
  static inline Kernel kernel = nullptr;
  static inline int count = 0;
  const char* op_;
  Kernel before_;
};

}  // namespace locus::test
