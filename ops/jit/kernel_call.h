// Calls of kernels from source text: from operands to the op. Internal to ops.
#pragma once

#include <initializer_list>
#include <new>
#include <span>
#include <vector>

#include <locus/core/op.h>
#include <locus/ops/jit/definition.h>

namespace locus::jit {

// An array of as many elements as a kernel has operands.
struct RefList {
  alignas(Ref) unsigned char bytes[kMostOperands * sizeof(Ref)];
  size_t n = 0;

  void add(const Tensor& t) { new (bytes + n++ * sizeof(Ref)) Ref(t); }
  std::span<const Ref> span() const { return {reinterpret_cast<const Ref*>(bytes), n}; }
};

class Invoked {
 public:
  // `how`: the attributes without those of the operands.
  Invoked(const Definition& d, std::span<const Operand* const> in,
          std::span<const Operand* const> out, const Attrs& how);

  // Makes the outputs.
  void make(std::span<Tensor> made) const;
  // Writes the given outputs.
  void write();

 private:
  const Op& op() const { return attrs_.targets == 0 ? attrs_.of->value : attrs_.of->into; }
  void check_numbers(size_t in, size_t out) const;
  // Adds tensor parameter k to the targets if it is written. In PyCUDA's form tensors may share
  // memory: only one tensor of each buffer is a target.
  void target(size_t k);
  // Whether a read of tensor t, parameter k, may see what another element has written.
  bool overlaps(size_t k, const Tensor& t) const;

  const Definition& d_;
  Operands operands_;
  Attrs attrs_;
  RefList refs_, targets_;  // tensors by parameter; those that are written
  Context context_;
};

// Throws with the user's line: the first operand's, else the call's.
[[noreturn]] inline void rethrow(std::span<const Operand* const> in, Caller from) {
  rethrow_at(in.empty() ? from : in[0]->from());
}

class Pointers {
 public:
  explicit Pointers(std::initializer_list<Operand> list) {
    if (list.size() > kMostOperands) extra_.resize(list.size());
    for (const Operand& o : list) data()[n_++] = &o;
  }
  std::span<const Operand* const> span() const {
    return {extra_.empty() ? inline_ : extra_.data(), n_};
  }

 private:
  const Operand** data() { return extra_.empty() ? inline_ : extra_.data(); }

  const Operand* inline_[kMostOperands];
  std::vector<const Operand*> extra_;
  size_t n_ = 0;
};

// Makes the outputs and returns the first; or, if they are given behind the inputs, writes them.
Tensor call(const Definition& d, std::span<const Operand* const> all, const Attrs& how);
Tensors run(const Definition& d, std::span<const Operand* const> in, const Attrs& how);
void write(const Definition& d, std::span<const Operand* const> in,
           std::span<const Operand* const> out, const Attrs& how);
// The text for operands of these dtypes: of the inputs, or of the inputs and outputs.
std::string source(const Definition& d, Context c, std::initializer_list<DType> of_operands);

}  // namespace locus::jit
