// The registry of ops, and invoke(), the one path every op call takes:
//   check the call -> infer shapes and dtypes -> allocate -> launch one kernel -> record for
//   autograd.
//
// An op is data: a name, an inference function, kernels by (device type, dtype), a gradient made of
// other ops, and a generator of sample inputs that lets tests cover it without knowing it. Besides
// ops with kernels there are views, which give the same memory seen differently, and functions,
// which run on the host and call ops and copies of their own (copyto). Users add ops, or kernels of
// old ops for new devices, with the same calls as the built-ins (OpDef below; examples/custom_op is
// a complete one). Threads: define ops before other threads use them; invoke from any thread.
#pragma once

#include <atomic>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <locus/core/kernel.h>
#include <locus/core/saved.h>
#include <locus/core/tensor.h>

namespace locus {

inline constexpr int kMaxAttrs = 192;  // bytes
inline constexpr size_t kAttrsAlignment = 8;

struct NoAttrs {};
template <class A>
concept AttrsType = std::is_trivially_copyable_v<A> && sizeof(A) <= kMaxAttrs &&
                    alignof(A) <= kAttrsAlignment;

// Keeps alive what the pointers in an op's attributes point to. Whoever keeps a copy of the
// attributes (the tape, a recorded call, an emulated GPU's queue) keeps the owner, too. The queue's
// thread may be the last to release the owner of a launched call, so that owner holds no Tensors.
struct AttrsOwner {
  std::shared_ptr<const void> memory;
};
// An op's attributes, borrowed for the call, with their type, which invoke() checks, and their
// owner, if they have one.
struct AttrsView {
  const void* data = nullptr;
  int size = 0;
  const std::type_info* type = &typeid(NoAttrs);
  const AttrsOwner* owner = nullptr;

  template <AttrsType A>
  static AttrsView of(const A& a) {
    return {&a, static_cast<int>(sizeof(A)), &typeid(A), nullptr};
  }
  template <AttrsType A>
  static AttrsView of(const A& a, const AttrsOwner& owner) {
    return {&a, static_cast<int>(sizeof(A)), &typeid(A), &owner};
  }
};
// A copy of them, with a share in their owner.
struct Attrs {
  alignas(kAttrsAlignment) unsigned char bytes[kMaxAttrs];
  int size = 0;
  const std::type_info* type = &typeid(NoAttrs);
  AttrsOwner owner;

  Attrs() : bytes{} {}
  Attrs(const AttrsView& a) : size(a.size), type(a.type) {
    if (size > 0) std::memcpy(bytes, a.data, static_cast<size_t>(size));
    if (a.owner) owner = *a.owner;
  }
  AttrsView view() const { return {bytes, size, type, &owner}; }
  template <class A>
  const A& as() const {
    return *reinterpret_cast<const A*>(bytes);
  }
};

// What kernels take. `strided`: any strides in and out, elementwise ops; results keep the inputs'
// layout (K-order). `rows`: any strides in, row-major out. `contiguous`: invoke() hands the kernel
// row-major inputs, copying those that are not.
enum class Layout : uint8_t { strided, rows, contiguous };

class Ref;
struct KernelList;
struct Sample {
  Tensors inputs;
  Attrs attrs;
  // Whether finite differences make sense here (no kinks near the inputs, no integer outputs).
  bool differentiable = true;
  std::vector<int> finite = {};  // inputs whose NaN and infinities give what is unspecified

  Sample() = default;
  Sample(Tensors in) : inputs(std::move(in)) {}
  template <class A>
  Sample(Tensors in, const A& a) : inputs(std::move(in)), attrs(AttrsView::of(a)) {}
};
using Samples = std::vector<Sample>;

struct Op {
  // Fills `out` (n_out metas), checks `in`, and returns the dtype that selects the kernel. Throws
  // ShapeError or DTypeError saying what was expected; invoke() adds the op's name and operands.
  using Infer = DType (*)(std::span<const Meta> in, const void* attrs, std::span<Meta> out);
  // One gradient per input, in order (saved.h). With `broadcasts` set, autograd sums each to its
  // input's shape.
  using Gradient = Tensors (*)(const Saved& saved, std::span<const Tensor> dout);
  // A view op has no kernel: it returns the same memory seen differently (out.data included).
  using MakeView = View (*)(const View& in, const void* attrs);
  // A function has none either: it makes the results by other means, on whatever contexts it likes.
  // A result that is defined already is to be written into. One with a gradient is differentiated
  // by that, one without through the ops it calls.
  using Function = void (*)(std::span<const Ref> in, const void* attrs, std::span<Tensor> out);

  static constexpr int kAny = -1, kEach = -2;

  std::string name;
  std::vector<std::string> arguments;  // names of the operands, for errors
  // How many inputs and results a call has, checked before infer; kAny: as many as infer takes;
  // kEach: a result for each input.
  int min_in = 0, max_in = kAny, n_out = 1;
  const std::type_info* attrs_type = &typeid(NoAttrs);  // likewise
  bool broadcasts = false;
  Layout layout = Layout::contiguous;
  Keep keep = Keep::none;
  Keep (*keep_of)(const void* attrs) = nullptr;  // where it depends on the attributes
  Infer infer = nullptr;
  Gradient gradient = nullptr;
  // Optional: the same by kernels that need no gradient themselves. Called instead of `gradient` in
  // a backward pass that is not itself recorded.
  Gradient fused_gradient = nullptr;
  // Optional: likewise where the op's first result is a head, whose gradient is all ones: they are
  // not made, and `dout` is undefined.
  Gradient head_gradient = nullptr;
  MakeView make_view = nullptr;
  Function function = nullptr;
  Samples (*samples)(Context, DType) = nullptr;
  // Why there is no gradient, no sample, no graph (capture.h) that replays it: tests print these.
  const char* no_gradient = nullptr;
  const char* no_samples = nullptr;
  const char* no_capture = nullptr;
  bool random = false;    // the result depends on attributes only
  bool in_place = false;  // outputs are written in place: call invoke_into
  // Its kernel waits for its like on other devices, and cannot run by itself; none on the host. The
  // owner of its attributes is their PeerBarrier (communicator.h).
  bool needs_peers = false;
  // Bit i: result i may have the memory of input i; the kernel reads an element there only before
  // it writes it. Where the layout is `strided`, all may; else those behind the 32nd may not.
  uint32_t over_inputs = 0;
  std::atomic<Kernel> kernels[kMaxDeviceTypes][kNumDTypes] = {};

  // Of a call with n inputs; kAny where only its attributes tell.
  int results(size_t n) const { return n_out == kEach ? static_cast<int>(n) : n_out; }
  Kernel kernel(DeviceType type, DType dtype) const {
    return kernels[static_cast<int>(type)][static_cast<int>(dtype)].load(std::memory_order_acquire);
  }
};

// Builds and registers an op:
//   OpDef<AxpbyAttrs>("axpby", {"x", "y"}).infer<&axpby_infer>()
//       .gradient<&axpby_gradient>(Keep::inputs).samples<&axpby_samples>()
//       .kernel(DeviceType::cpu, f32, &axpby_cpu);
// Its functions take `const A&` where those of Op take `const void*`. As many inputs are expected
// as arguments are named, unless inputs() says otherwise; any number when none is named. Defining a
// name twice throws Error.
Op& define_op(std::string_view name);
Op& get_op(std::string_view name);   // throws Error listing near names
Op* find_op(std::string_view name);  // nullptr when there is none
std::vector<const Op*> all_ops();    // by name
void set_kernel(std::string_view op, DeviceType type, DType dtype, Kernel kernel);
void set_kernels(DeviceType type, const KernelList& list);  // kernel_list.h

namespace detail {
// Result i may have input i's memory; ValueError unless 0 <= i < 32.
void allow_over_input(Op& op, int i);
}  // namespace detail

template <AttrsType A = NoAttrs>
class OpDef {
 public:
  explicit OpDef(std::string_view name, std::vector<std::string> arguments = {})
      : op_(define_op(name)) {
    op_.attrs_type = &typeid(A);
    if (!arguments.empty()) inputs(static_cast<int>(arguments.size()));
    op_.arguments = std::move(arguments);
  }
  OpDef& inputs(int n) { return inputs(n, n); }
  OpDef& inputs(int least, int most) {
    op_.min_in = least;
    op_.max_in = most;
    return *this;
  }
  template <DType (*F)(std::span<const Meta>, const A&, std::span<Meta>)>
  OpDef& infer() {
    return set(&Op::infer, [](std::span<const Meta> in, const void* a, std::span<Meta> out) {
      return F(in, *static_cast<const A*>(a), out);
    });
  }
  template <Tensors (*F)(const Saved&, std::span<const Tensor>)>
  OpDef& gradient(Keep keep) {
    op_.gradient = F;
    op_.keep = op_.keep | keep;
    return *this;
  }
  template <Keep (*F)(const A&)>
  OpDef& keeps() {
    return set(&Op::keep_of, [](const void* a) { return F(*static_cast<const A*>(a)); });
  }
  template <Tensors (*F)(const Saved&, std::span<const Tensor>)>
  OpDef& fused_gradient(Keep keep = Keep::none) {
    op_.fused_gradient = F;
    op_.keep = op_.keep | keep;
    return *this;
  }
  template <Tensors (*F)(const Saved&, std::span<const Tensor>)>
  OpDef& head_gradient(Keep keep = Keep::none) {
    op_.head_gradient = F;
    op_.keep = op_.keep | keep;
    return *this;
  }
  OpDef& no_gradient(const char* why) { return set(&Op::no_gradient, why); }
  template <View (*F)(const View&, const A&)>
  OpDef& view() {
    op_.make_view = [](const View& in, const void* a) { return F(in, *static_cast<const A*>(a)); };
    return inputs(1);
  }
  template <void (*F)(std::span<const Ref>, const A&, std::span<Tensor>)>
  OpDef& function() {
    return set(&Op::function, [](std::span<const Ref> in, const void* a, std::span<Tensor> out) {
      F(in, *static_cast<const A*>(a), out);
    });
  }
  template <Samples (*F)(Context, DType)>
  OpDef& samples() {
    return set(&Op::samples, F);
  }
  OpDef& no_samples(const char* why) { return set(&Op::no_samples, why); }
  OpDef& no_capture(const char* why) { return set(&Op::no_capture, why); }
  OpDef& outputs(int n) { return set(&Op::n_out, n); }
  OpDef& broadcasts() { return set(&Op::broadcasts, true); }
  OpDef& layout(Layout l) { return set(&Op::layout, l); }
  OpDef& in_place() { return set(&Op::in_place, true); }
  OpDef& needs_peers() { return set(&Op::needs_peers, true); }
  OpDef& over_input(int i) {
    detail::allow_over_input(op_, i);
    return *this;
  }
  OpDef& random() { return set(&Op::random, true); }
  OpDef& kernel(DeviceType type, DType dtype, Kernel k) {
    op_.kernels[static_cast<int>(type)][static_cast<int>(dtype)] = k;
    return *this;
  }
  operator const Op&() const { return op_; }
  Op& op() { return op_; }

 private:
  template <class T>
  OpDef& set(T Op::*field, std::type_identity_t<T> value) {
    op_.*field = value;
    return *this;
  }

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

// An op that is known to take attributes of type A. Found once:
//   static const OpRef<SoftmaxAttrs> softmax("softmax");
//   return invoke(softmax, {x}, {.axis = 1});
template <class A = NoAttrs>
class OpRef {
 public:
  // Throws Error when there is no such op, or its attributes are of another type.
  explicit OpRef(std::string_view name);
  operator const Op&() const { return op_; }

 private:
  const Op& op_;
};

namespace detail {
// Results that are defined already are written into, if their context, shape and dtype are those of
// the result. `where`: for ops without inputs; null: current_context().
void invoke(const Op& op, std::span<const Ref> in, const AttrsView& attrs, const Context* where,
            std::span<Tensor> out);
void invoke_into(const Op& op, std::span<const Ref> in, const AttrsView& attrs,
                 std::span<const Ref> out);
void check_attrs(const Op& op, const std::type_info& given);  // throws ValueError
}  // namespace detail

template <class A>
OpRef<A>::OpRef(std::string_view name) : op_(get_op(name)) {
  detail::check_attrs(op_, typeid(A));
}

// Runs an op with one result on its inputs' context. Throws ValueError for attributes of a type
// that is not the op's (left out: NoAttrs), Error for a number of inputs or results that it has
// not. The result is written into `out` when that is defined: same context, shape and dtype.
template <class A = NoAttrs>
Tensor invoke(const Op& op, std::span<const Ref> in, const A& attrs = {}, Tensor out = {}) {
  detail::invoke(op, in, AttrsView::of(attrs), nullptr, {&out, 1});
  return out;
}
template <class A = NoAttrs>
Tensor invoke(const Op& op, Refs in, const A& attrs = {}, Tensor out = {}) {
  return invoke(op, std::span<const Ref>(in.begin(), in.size()), attrs, std::move(out));
}
template <class A>
Tensor invoke(const OpRef<A>& op, Refs in, const std::type_identity_t<A>& attrs = {},
              Tensor out = {}) {
  return invoke(static_cast<const Op&>(op), in, attrs, std::move(out));
}
// An op without inputs (zeros, uniform) runs where it is told.
template <class A = NoAttrs>
Tensor invoke_on(Context where, const Op& op, const A& attrs = {}) {
  Tensor out;
  detail::invoke(op, {}, AttrsView::of(attrs), &where, {&out, 1});
  return out;
}
// Several results, each into its place in `out` when there is one.
template <class A = NoAttrs>
Tensors invoke_all(const Op& op, std::span<const Ref> in, const A& attrs = {}, Tensors out = {}) {
  out.resize(static_cast<size_t>(op.results(in.size())));
  detail::invoke(op, in, AttrsView::of(attrs), nullptr, out);
  return out;
}
// Writes into existing tensors (out= and in-place forms): same context, shape and dtype as
// inferred, else an error. While recording, throws Error when an operand is part of the graph.
template <class A = NoAttrs>
void invoke_into(const Op& op, std::span<const Ref> in, std::span<const Ref> out,
                 const A& attrs = {}) {
  detail::invoke_into(op, in, AttrsView::of(attrs), out);
}
template <class A = NoAttrs>
void invoke_into(const Op& op, Refs in, Refs out, const A& attrs = {}) {
  detail::invoke_into(op, {in.begin(), in.size()}, AttrsView::of(attrs), {out.begin(), out.size()});
}

}  // namespace locus
