// Where a library such as cuBLAS keeps what it needs once a device.
#pragma once

#include <vector>

#include <locus/core/kernel.h>

namespace locus::cuda {

// What libraries keep for a device, such as a handle: made with it, so that no kernel function has
// to, and never destroyed.
class Libraries {
 public:
  using Make = void* (*)();   // for the current device
  static int add(Make make);  // a library's number; call while the program starts
  void open();
  void* operator[](int library) const { return items_[static_cast<size_t>(library)]; }

 private:
  std::vector<void*> items_;
};

// For kernel functions: what a library keeps for the stream's device. Threads: any, at once.
void* library(StreamView s, int library);

}  // namespace locus::cuda
