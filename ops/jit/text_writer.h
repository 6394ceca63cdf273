// Generated text that all kernels have. Internal to ops.
#pragma once

#include <locus/core/base/text.h>
#include <locus/ops/jit/definition.h>

namespace locus::jit {

class TextWriter {
 protected:
  TextWriter(const Specialization& s, bool gpu);

  void line(const auto&... parts) { text_ += text_of(parts..., '\n'); }

  // Of parameter k: the type of elements, and the type that the text computes in.
  std::string storage(size_t k) const;
  std::string compute(size_t k) const;
  bool written(size_t k) const { return d_.parameters[k].written; }
  bool half(size_t k) const { return s_.types[k].dtype == f16 || s_.types[k].dtype == bf16; }
  // Whether the text gets the address itself.
  bool address(size_t k) const { return d_.parameters[k].pointer && !half(k); }
  std::string raw_type(size_t k) const;
  // f(k, number among them) for parameters of a kind.
  void each(char kind, const auto& f) const {
    for (size_t k = 0; k < kind_.size(); ++k)
      if (kind_[k] == kind) f(k, place_[k]);
  }

  // #include lines, the types that letters stand for, the preamble, and a type of each parameter:
  // _t0, _t1, ... A parameter's name may hide what a later type is made of.
  void head(std::string_view header);
  // The user's text, whose lines the compiler's messages name.
  std::string quoted(const std::string& title, std::string_view users) const;
  // Members of a struct of arguments: numbers and raw arguments.
  void rest_of_args();
  // A number or raw argument `k`, read from such a struct `a`.
  std::string argument(size_t k) const;

  const Specialization& s_;
  const Definition& d_;
  const bool gpu_;
  std::string text_;
  std::vector<char> kind_;     // by parameter: array, number or raw
  std::vector<size_t> place_;  // among those of its kind
  size_t arrays_ = 0, numbers_ = 0, raws_ = 0;
};

// The type that kernels compute in: f32 for f16 and bf16.
std::string compute_type(DType d);

}  // namespace locus::jit
