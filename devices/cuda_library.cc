#include <locus/devices/cuda_library.h>

namespace locus::cuda {
namespace {

// Entered while the program starts, in no order.
std::vector<Libraries::Make>& makers() {
  static std::vector<Libraries::Make> list;
  return list;
}

}  // namespace

int Libraries::add(Make make) {
  makers().push_back(make);
  return static_cast<int>(makers().size()) - 1;
}

void Libraries::open() {
  for (const Make make : makers()) items_.push_back(make());
}

}  // namespace locus::cuda
