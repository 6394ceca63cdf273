// Internal to ops: checks of a call, and errors that name the function that the user called.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/error.h>
#include <locus/core/tensor.h>

namespace locus::detail {

// DTypeError that names the operands unless all that are defined are floating. An integer would be
// promoted to f64, and everything computed from the result with it.
inline void expect_floating(const char* who,
                            std::initializer_list<std::pair<const char*, const Tensor*>> operands) {
  for (const auto& [name, x] : operands)
    if (x->defined() && !is_floating(x->dtype())) [[unlikely]] {
      std::string all;
      for (const auto& [other, y] : operands)
        if (y->defined()) all += text_of(all.empty() ? "" : ", ", other, " ", describe(*y));
      throw DTypeError(who, ": ", all, ": expected floating operands, got ", name, " of ",
                       locus::name(x->dtype()), "; cast it: ", name,
                       ".astype(f32), or images with data::transforms::ToTensor()");
    }
}

// f(), whose errors begin with `who` where they begin with the name of the op `op`.
auto called_as(const char* who, const char* op, const auto& f) {
  try {
    return f();
  } catch (const Error&) {
    std::rethrow_exception(reworded([&](const std::string& text) {
      const std::string begin = std::string(op) + ":";
      return text.starts_with(begin) ? who + text.substr(begin.size() - 1) : text;
    }));
  }
}

}  // namespace locus::detail
