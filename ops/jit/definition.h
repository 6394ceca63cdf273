// One user kernel: its text, and the code that is compiled of it for dtypes and contexts. Internal
// to ops.
//
// Definitions live until the process ends, as ops do. Equal texts are one definition. Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>
#include <locus/core/op.h>
#include <locus/core/program.h>
#include <locus/ops/jit/parameters.h>
#include <locus/ops/kernels.h>

namespace locus::jit {

// A call's operands by parameter: a tensor, a number, or neither, for an output to be made. Only
// the kernel's parameters are set.
struct Operands {
  const Tensor* tensor[kMostOperands];
  const Scalar* number[kMostOperands];

  explicit Operands(size_t parameters) {
    std::fill_n(tensor, parameters, nullptr);
    std::fill_n(number, parameters, nullptr);
  }
};

// The kernel for operands of certain dtypes.
class Specialization : NonCopyable {
 public:
  struct Type {
    DType dtype = f32;
    bool number = false;
  };
  struct Functions {
    const KernelFunction *host = nullptr, *flat = nullptr,
                         *strided = nullptr;  // flat: null with _ind
  };

  Specialization(const Definition& d, const std::vector<Type>& t);

  // Compiled or loaded at first use. SourceError or UnsupportedOnContext if that fails.
  const Functions& functions(Context c) const;
  std::string text(bool gpu) const;  // element_text.cc
  int pack() const;                  // elements that a thread of the flat kernel computes

  const Definition& definition;
  const std::vector<Type> types;  // by parameter
  // Outputs are results; or they are operands behind the inputs, and are written in place.
  Op value, into;

 private:
  const Functions& build(Context c, std::atomic<const Functions*>& at) const;

  mutable std::atomic<const Functions*> host_ = nullptr, gpu_[kMaxDevices] = {};
};

class Definition : NonCopyable {
 public:
  // The definition of these texts; `out` is empty in PyCUDA's form. Throws ValueError.
  static const Definition& of(const std::string& in, const std::string& out,
                              const std::string& body, const std::string& name,
                              const KernelOptions& options, bool pointers);

  // Throws ValueError or DTypeError if the operands do not suit the parameters.
  const Specialization& find(const Operands& operands) const;
  std::string described(size_t begin, size_t end) const;  // "T x, T y": these parameters

  const std::string name, body;
  const KernelOptions options;
  const Parameters parameters;         // inputs, then outputs
  const size_t inputs;                 // all, in PyCUDA's form
  const bool pointers;                 // PyCUDA's form
  const bool raw_outputs;              // some output is raw
  const bool indexed;                  // the body uses _ind
  const bool ordered;                  // elements are numbered in row-major order
  const int64_t grain;                 // elements that a thread of the CPU computes at least
  const std::vector<bool> sets_first;  // by parameter: set_first()

 private:
  using Key = std::array<uint8_t, kMostOperands>;
  struct Last {
    Key key;
    const Specialization* made;
  };
  struct Text;  // what of() was given

  Definition(const Text& text, Parameters all);
  const Specialization& of_types(const std::vector<Specialization::Type>& types) const;
  std::vector<Specialization::Type> types_of(const Operands& operands) const;

  mutable std::atomic<const Last*> last_ = nullptr;
  mutable Mutex mutex_;
  mutable std::map<Key, std::unique_ptr<const Last>> by_operands_ LOCUS_GUARDED_BY(mutex_);
  mutable std::map<std::string, std::unique_ptr<const Specialization>> made_
      LOCUS_GUARDED_BY(mutex_);
};

// The functions of a specialization's ops (element_launch.cc).
struct Attrs {
  const Specialization* of;
  int64_t size;      // KernelCall::size
  uint32_t targets;  // bit k: operand k of `into` is written
  int32_t block;
  uint64_t number[kMostNumbers];
};
DType infer(std::span<const Meta> in, const void* attrs, std::span<Meta> out);
void run_host(const Call& call);
void run_gpu(const Call& call);

}  // namespace locus::jit
