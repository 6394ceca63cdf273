// Internal to ops: refuses integers where an op computes with floating numbers only.
#pragma once

#include <initializer_list>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/tensor.h>

namespace locus::detail {

// DTypeError that names the operands unless all that are defined are floating. An integer would be
// promoted to f64, and everything computed from the result with it.
inline void expect_floating(const char* op,
                            std::initializer_list<std::pair<const char*, const Tensor*>> operands) {
  for (const auto& [name, x] : operands)
    if (x->defined() && !is_floating(x->dtype())) [[unlikely]] {
      std::string all;
      for (const auto& [other, y] : operands)
        if (y->defined()) all += text_of(all.empty() ? "" : ", ", other, " ", describe(*y));
      throw DTypeError(op, ": ", all, ": expected floating operands, got ", name, " of ",
                       locus::name(x->dtype()), "; cast it: ", name,
                       ".astype(f32), or images with data::transforms::ToTensor()");
    }
}

}  // namespace locus::detail
