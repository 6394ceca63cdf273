// The registry of ops, and invoke(), the one path every op call takes:
//   check contexts -> infer shapes and dtypes -> allocate -> launch one kernel -> record for
//   autograd.
//
// An op is data: a name, an inference function, kernels by (device type, dtype), a gradient made of
// other ops, and a generator of sample inputs that lets tests cover it without knowing it. Users
// add ops, or kernels of old ops for new devices, with the same calls as the built-ins (define_op
// below; examples/custom_op is a complete one). Threads: define ops before other threads use them;
// invoke from any thread.
#pragma once

#include <atomic>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <locus/core/kernel.h>
#include <locus/core/tensor.h>

namespace locus {

inline constexpr int kMaxAttrs = 192;  // bytes

// A copy of an op's attributes: trivially copyable, so a queue or a graph can keep them.
struct Attrs {
  alignas(8) unsigned char bytes[kMaxAttrs];
  int size = 0;

  Attrs() = default;
  Attrs(const void* p, int n) : size(n) {
    if (n > 0) std::memcpy(bytes, p, static_cast<size_t>(n));
  }
  template <class A>
  const A& as() const {
    return *reinterpret_cast<const A*>(bytes);
  }
};
struct NoAttrs {};

// What backward reads, and so what recording keeps alive.
enum class Keep : uint8_t { none, inputs, outputs, both };

// What kernels take. `strided`: any strides in and out, elementwise ops; results keep the inputs'
// layout (K-order). `rows`: any strides in, row-major out. `contiguous`: invoke() hands the kernel
// row-major inputs, copying those that are not.
enum class Layout : uint8_t { strided, rows, contiguous };

class Saved;
struct KernelList;
struct Sample {
  Tensors inputs;
  Attrs attrs;
  // Whether finite differences make sense here (no kinks near the inputs, no integer outputs).
  bool differentiable = true;

  Sample() = default;
  Sample(Tensors in) : inputs(std::move(in)) {}
  template <class A>
  Sample(Tensors in, const A& a) : inputs(std::move(in)), attrs(&a, static_cast<int>(sizeof(A))) {
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= kMaxAttrs);
  }
};
using Samples = std::vector<Sample>;

struct Op {
  // Fills `out` (n_out metas), checks `in`, and returns the dtype that selects the kernel. Throws
  // ShapeError or DTypeError saying what was expected; invoke() adds the op's name and operands.
  using Infer = DType (*)(std::span<const Meta> in, const void* attrs, std::span<Meta> out);
  // One gradient per input, in order; an undefined Tensor where there is none. With `broadcasts`
  // set, autograd sums each to its input's shape.
  using Gradient = Tensors (*)(const Saved& saved, std::span<const Tensor> dout);
  // A view op has no kernel: it returns the same memory seen differently (out.data included).
  using MakeView = View (*)(const View& in, const void* attrs);

  std::string name;
  std::vector<std::string> arguments;  // names of the operands, for errors
  int8_t n_out = 1;
  bool broadcasts = false;
  Layout layout = Layout::contiguous;
  Keep keep = Keep::none;
  Infer infer = nullptr;
  Gradient gradient = nullptr;
  MakeView make_view = nullptr;
  Samples (*samples)(Context, DType) = nullptr;
  // Why there is no gradient, or no sample: printed by the registry walk.
  const char* no_gradient = nullptr;
  const char* no_samples = nullptr;
  bool random = false;    // the result depends on attributes only; no numeric reference
  bool in_place = false;  // outputs are written in place: call invoke_into
  std::atomic<Kernel> kernels[kMaxDeviceTypes][kNumDTypes] = {};

  Kernel kernel(DeviceType type, DType dtype) const {
    return kernels[static_cast<int>(type)][static_cast<int>(dtype)].load(std::memory_order_acquire);
  }
};

// What an op's gradient may look at.
class Saved {
 public:
  Saved(const Attrs& attrs, int n_in) : attrs_(attrs), n_in_(n_in) {}
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  int n_in() const { return n_in_; }
  // Kept tensors; an undefined Tensor when Keep does not include them.
  const Tensor& in(int i) const { return inputs[static_cast<size_t>(i)]; }
  const Tensor& out(int i = 0) const { return outputs[static_cast<size_t>(i)]; }
  // Always known.
  const Meta& in_meta(int i) const { return metas[static_cast<size_t>(i)]; }
  Shape in_shape(int i) const { return Shape(in_meta(i)); }
  DType in_dtype(int i) const { return in_meta(i).dtype; }
  Context in_context(int i) const { return contexts[static_cast<size_t>(i)]; }
  bool needs(int i) const { return needs_grad[static_cast<size_t>(i)]; }

  Tensors inputs, outputs;
  std::vector<Meta> metas;
  std::vector<Context> contexts;
  std::vector<bool> needs_grad;

 private:
  Attrs attrs_;
  int n_in_;
};

// Builds and registers an op:
//   OpDef<AxpbyAttrs>("axpby", {"x", "y"}).infer<&axpby_infer>()
//       .gradient<&axpby_gradient>(Keep::inputs).samples<&axpby_samples>()
//       .kernel(DeviceType::cpu, f32, &axpby_cpu);
// The functions may take `const A&` in place of `const void*`. Defining a name twice throws Error.
Op& define_op(std::string_view name);
Op& get_op(std::string_view name);   // throws Error listing near names
Op* find_op(std::string_view name);  // nullptr when there is none
std::vector<const Op*> all_ops();    // by name
void set_kernel(std::string_view op, DeviceType type, DType dtype, Kernel kernel);
void set_kernels(DeviceType type, const KernelList& list);  // kernel_list.h

template <class A = NoAttrs>
class OpDef {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= kMaxAttrs);

 public:
  explicit OpDef(std::string_view name, std::vector<std::string> arguments = {})
      : op_(define_op(name)) {
    op_.arguments = std::move(arguments);
  }
  template <DType (*F)(std::span<const Meta>, const A&, std::span<Meta>)>
  OpDef& infer() {
    op_.infer = [](std::span<const Meta> in, const void* a, std::span<Meta> out) {
      return F(in, *static_cast<const A*>(a), out);
    };
    return *this;
  }
  template <Tensors (*F)(const Saved&, std::span<const Tensor>)>
  OpDef& gradient(Keep keep) {
    op_.gradient = F;
    op_.keep = keep;
    return *this;
  }
  OpDef& no_gradient(const char* why) {
    op_.no_gradient = why;
    return *this;
  }
  template <View (*F)(const View&, const A&)>
  OpDef& view() {
    op_.make_view = [](const View& in, const void* a) { return F(in, *static_cast<const A*>(a)); };
    return *this;
  }
  template <Samples (*F)(Context, DType)>
  OpDef& samples() {
    op_.samples = F;
    return *this;
  }
  OpDef& no_samples(const char* why) {
    op_.no_samples = why;
    return *this;
  }
  OpDef& outputs(int n) {
    op_.n_out = static_cast<int8_t>(n);
    return *this;
  }
  OpDef& broadcasts() {
    op_.broadcasts = true;
    return *this;
  }
  OpDef& layout(Layout l) {
    op_.layout = l;
    return *this;
  }
  OpDef& in_place() {
    op_.in_place = true;
    return *this;
  }
  OpDef& random() {
    op_.random = true;
    return *this;
  }
  OpDef& kernel(DeviceType type, DType dtype, Kernel k) {
    op_.kernels[static_cast<int>(type)][static_cast<int>(dtype)] = k;
    return *this;
  }
  operator const Op&() const { return op_; }

 private:
  Op& op_;
};

// The ops core itself calls, by name: fill and copy to move data, add and sum_to to sum gradients.
// Their attributes are core's so that their families (create, copy, elementwise, reduce) agree.
struct FillAttrs {  // no input; fills the output, whose dtype and shape are `meta`
  Scalar value = 0;
  Meta meta;
};
struct CopyAttrs {  // one input, the output has its shape and this dtype; any strides on both sides
  DType dtype = f32;
};
struct BinaryAttrs {  // two inputs; or one, with `scalar` in the place of the other
  Scalar scalar = 0;
  bool scalar_first = false;
};
struct SumToAttrs {  // sums the axes along which the input was broadcast from `target`
  Meta target;
};

// Operands, borrowed for the call.
class Ref {
 public:
  Ref(const Tensor& t) : tensor_(&t) {}
  const Tensor* tensor_;
};
using Refs = std::initializer_list<Ref>;

namespace detail {
void invoke(const Op& op, std::span<const Ref> in, const void* attrs, int size, Context where,
            bool has_where, std::span<Tensor> out);
void invoke_into(const Op& op, std::span<const Ref> in, const void* attrs, int size,
                 std::span<const Ref> out);
}  // namespace detail

// Runs an op with one result on its inputs' context.
template <class A = NoAttrs>
Tensor invoke(const Op& op, Refs in, const A& attrs = {}) {
  Tensor out;
  detail::invoke(op, {in.begin(), in.size()}, &attrs, sizeof(A), {}, false, {&out, 1});
  return out;
}
template <class A = NoAttrs>
Tensor invoke(const Op& op, std::span<const Ref> in, const A& attrs = {}) {
  Tensor out;
  detail::invoke(op, in, &attrs, sizeof(A), {}, false, {&out, 1});
  return out;
}
// An op without inputs (zeros, uniform) runs where it is told.
template <class A = NoAttrs>
Tensor invoke_on(Context where, const Op& op, const A& attrs = {}) {
  Tensor out;
  detail::invoke(op, {}, &attrs, sizeof(A), where, true, {&out, 1});
  return out;
}
// Several results.
template <class A = NoAttrs>
Tensors invoke_all(const Op& op, std::span<const Ref> in, const A& attrs = {}) {
  Tensors out(static_cast<size_t>(op.n_out));
  detail::invoke(op, in, &attrs, sizeof(A), {}, false, out);
  return out;
}
// Writes into existing tensors (out= and in-place forms): same context, shape and dtype as
// inferred, else an error. While recording, throws Error when an operand is part of the graph.
template <class A = NoAttrs>
void invoke_into(const Op& op, std::span<const Ref> in, std::span<const Ref> out,
                 const A& attrs = {}) {
  detail::invoke_into(op, in, &attrs, sizeof(A), out);
}
template <class A = NoAttrs>
void invoke_into(const Op& op, Refs in, Refs out, const A& attrs = {}) {
  detail::invoke_into(op, {in.begin(), in.size()}, &attrs, sizeof(A), {out.begin(), out.size()});
}

}  // namespace locus
