// One user kernel: its text, and the code that is compiled of it for dtypes and contexts. Internal
// to ops.
//
// Definitions live until the process ends, as ops do. Equal texts are one definition. Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <initializer_list>
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
#include <locus/ops/reduce/reduce_walk.h>

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
  using Functions = std::array<const KernelFunction*, 4>;  // of Definition::functions(); else null

  Specialization(const Definition& d, const std::vector<Type>& t);

  // Compiled or loaded at first use. SourceError or UnsupportedOnContext if that fails.
  const Functions& functions(Context c) const;
  std::string text(bool gpu) const;

  const Definition& definition;
  const std::vector<Type> types;  // by parameter
  // Outputs are results; or they are operands behind the inputs, and are written in place.
  Op value, into;

 private:
  const Functions& build(Context c, std::atomic<const Functions*>& at) const;

  mutable std::atomic<const Functions*> host_ = nullptr, gpu_[kMaxDevices] = {};
};

// The kernel of a gradient, and which parameters its parameters belong to.
struct GradientKernel {
  struct Place {
    size_t parameter;
    bool gradient;  // of the parameter; else its value
  };
  const Definition* kernel = nullptr;
  std::vector<Place> places = {};  // by parameter of `kernel`
};

class Definition : NonCopyable {
 public:
  virtual ~Definition() = default;

  // Throws ValueError or DTypeError if the operands do not suit the parameters.
  const Specialization& find(const Operands& operands) const;
  std::string described(size_t begin, size_t end) const;  // "T x, T y": these parameters

  // The text that is compiled, and the functions in it.
  virtual std::string text(const Specialization& s, bool gpu) const = 0;
  virtual std::vector<std::string> functions(bool gpu) const = 0;
  // Sets the inference and the kernels of an op whose attributes are Attrs.
  virtual void set(Op& op) const = 0;
  // Sets the gradient of an op of s, if the kernel has one (gradient.cc).
  void set_gradient(Op& op, const Specialization& s) const;

  const std::string name;
  const KernelOptions options;
  const Parameters parameters;  // inputs, then outputs
  const size_t inputs;          // all, in PyCUDA's form
  const bool pointers;          // PyCUDA's form
  const bool scatters;          // an element of an output depends on several elements of an input
  const bool ordered;           // elements are numbered in row-major order
  const bool integers;          // the text may compute with integers, whatever the operands are

 protected:
  struct Traits {
    bool pointers, scatters, ordered, integers;
  };
  Definition(const std::string& name, const KernelOptions& options, Parameters all, Traits traits,
             GradientKernel gradient = {});

  // By parameter: whether the body sets the output before it reads it (set_first()). Macros may
  // read an output where the body does not name it, so false with macros.
  std::vector<bool> outputs_set_by(const std::string& body) const;

  // The definition of this key. If there is none, keeps what make() returns.
  static const Definition& of(const std::string& key,
                              const std::function<std::unique_ptr<const Definition>()>& make);
  // Of this kernel with a gradient, which has the parameters of these names.
  GradientKernel matched(const Definition& gradient) const;
  std::string key_with(const Definition& gradient) const;
  static std::string key_of(char form, std::initializer_list<std::string_view> texts,
                            const KernelOptions& options);

 private:
  static Tensors differentiate(const Saved& saved, std::span<const Tensor> dout);

  using Key = std::array<uint8_t, kMostOperands>;
  struct Last {
    Key key;
    const Specialization* made;
  };

  const Specialization& of_types(const std::vector<Specialization::Type>& types) const;
  std::vector<Specialization::Type> types_of(const Operands& operands) const;

  const GradientKernel gradient_;
  mutable std::atomic<const Last*> last_ = nullptr;
  mutable Mutex mutex_;
  mutable std::map<Key, std::unique_ptr<const Last>> by_operands_ LOCUS_GUARDED_BY(mutex_);
  mutable std::map<std::string, std::unique_ptr<const Specialization>> made_
      LOCUS_GUARDED_BY(mutex_);
};

// The attributes of a specialization's ops.
struct Attrs {
  const Specialization* of = nullptr;
  int64_t size = -1;     // KernelCall::size
  uint32_t targets = 0;  // bit k: operand k of `into` is written
  int32_t block = 0;
  ReduceAttrs reduce = {};
  uint64_t number[kMostNumbers] = {};
};

}  // namespace locus::jit
