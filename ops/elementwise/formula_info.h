// What code that is generated of formulas must know of each. Internal to ops. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <typeinfo>

#include <locus/ops/elementwise/kernels.h>

namespace locus::formula {

struct Info {
  std::string type;  // in C++: "locus::formula::Exp"
  int arity = 1, cost = 1;
  bool predicate = false;
  Scalars (*numbers)(const Call& call) = nullptr;
  // The formula's attributes, within the op's.
  size_t bytes = 0, offset = 0;
};

// The formula of an op; null if the op has none. Valid until the process ends.
const Info* info_of(const Op& op);
void set_info(const Op& op, Info info);
std::string text_of_type(const std::type_info& type);

}  // namespace locus::formula
