// The registry of ops, and invoke(), the path of every op call:
//   check the call -> infer shapes and dtypes -> allocate -> launch one kernel -> record for
//   autograd.
//
// An op is data: a name, an inference function, kernels by (device type, dtype), a gradient made of
// other ops, and sample inputs for generic tests. Two kinds of op have no kernel. Views return the
// same memory with another shape or strides. Functions run on the host and call other ops and
// copies (copyto). Users define ops, and add kernels for new devices, by the same calls as built-in
// ops (complete example: examples/custom_op). Threads: define an op before other threads use it.
// Any thread may call invoke() and set_kernel() at any time.
#pragma once

#include <atomic>
#include <cstring>
#include <initializer_list>
#include <iterator>
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

// Keeps alive the memory that pointers in an op's attributes point to. Each copy of the attributes
// (in the tape, a recorded call, an emulated GPU's queue) holds the owner, too. A CUDA launch
// keeps no copy after it returns. The owner must not hold Tensors, because a queue's thread may
// release it last.
struct AttrsOwner {
  std::shared_ptr<const void> memory;
};
// Borrows an op's attributes for the call. Holds their type, which invoke() checks, and their owner
// or null.
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
// A copy of the attributes. Shares ownership of the owner.
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

// The layouts that a kernel accepts. `strided` (elementwise ops): any strides in and out; results
// keep the inputs' layout (K-order). `rows`: any strides in, row-major out. `contiguous`: row-major
// inputs; invoke() copies inputs that are not row-major.
enum class Layout : uint8_t { strided, rows, contiguous };

class Ref;
struct KernelList;
struct Sample {
  Tensors inputs;
  Attrs attrs;
  // Whether finite differences make sense here (no kinks near the inputs, no integer outputs).
  bool differentiable = true;
  std::vector<int> finite = {};  // inputs for which NaN and infinities give unspecified results

  Sample() = default;
  Sample(Tensors in) : inputs(std::move(in)) {}
  template <class A>
  Sample(Tensors in, const A& a) : inputs(std::move(in)), attrs(AttrsView::of(a)) {}
};
using Samples = std::vector<Sample>;

struct Op {
  // Checks `in`, fills `out` (n_out metas), and returns the dtype that selects the kernel. Throws
  // ShapeError, DTypeError or ValueError with what was expected; invoke() adds op and operands.
  using Infer = DType (*)(std::span<const Meta> in, const void* attrs, std::span<Meta> out);
  // Returns one gradient per input, in order (saved.h). If `broadcasts` is set, autograd sums each
  // gradient to its input's shape. Wrong gradients: see Details.
  using Gradient = Tensors (*)(const Saved& saved, std::span<const Tensor> dout);
  // For view ops: returns a view of the same memory, with `data` set.
  using MakeView = View (*)(const View& in, const void* attrs);
  // For function ops. Makes each undefined result, on a context of its choice, and writes into
  // defined results. Backward calls the op's gradient; without a gradient, it differentiates the
  // ops that the function called.
  using Function = void (*)(std::span<const Ref> in, const void* attrs, std::span<Tensor> out);

  static constexpr int kAny = -1, kEach = -2;

  std::string name;
  std::vector<std::string> arguments;  // names of the operands, for errors
  // Numbers of inputs and results, checked before infer. kAny: any that infer accepts. kEach: one
  // result per input.
  int min_in = 0, max_in = kAny, n_out = 1;
  const std::type_info* attrs_type = &typeid(NoAttrs);  // checked before infer
  bool broadcasts = false;
  Layout layout = Layout::contiguous;
  Keep keep = Keep::none;
  Keep (*keep_of)(const void* attrs) = nullptr;  // if Keep depends on the attributes
  Infer infer = nullptr;
  Gradient gradient = nullptr;
  // Optional: the same gradient by ops that have no gradient. Replaces `gradient` in backward
  // passes that are not recorded.
  Gradient fused_gradient = nullptr;
  // Optional: replaces `gradient` if result 0 is a head with the default gradient of ones, no other
  // result has a gradient, and the graph is not retained. `dout` is then undefined.
  Gradient head_gradient = nullptr;
  MakeView make_view = nullptr;
  Function function = nullptr;
  Samples (*samples)(Context, DType) = nullptr;
  // Why the op has no gradient or samples, or cannot be captured (capture.h), for errors and tests.
  const char* no_gradient = nullptr;
  const char* no_samples = nullptr;
  const char* no_capture = nullptr;
  bool random = false;    // draws by a key in the attributes
  bool in_place = false;  // outputs are written in place: call invoke_into
  // The kernel waits for peer kernels on other devices and cannot run alone. Not for host kernels.
  // The attributes' owner is the PeerBarrier of these kernels (communicator.h).
  bool needs_peers = false;
  // Bit i: the kernel may write result i over input i, because it reads each element before it
  // writes it. Kernels of layout `strided` may do so for all inputs, without bits.
  uint32_t over_inputs = 0;
  std::atomic<Kernel> kernels[kMaxDeviceTypes][kNumDTypes] = {};

  // The number of results of a call with n inputs; kAny if it depends on the attributes.
  int results(size_t n) const { return n_out == kEach ? static_cast<int>(n) : n_out; }
  Kernel kernel(DeviceType type, DType dtype) const {
    return kernels[static_cast<int>(type)][static_cast<int>(dtype)].load(std::memory_order_acquire);
  }
};

// Builds and registers an op:
//   OpDef<AxpbyAttrs>("axpby", {"x", "y"}).infer<&axpby_infer>()
//       .gradient<&axpby_gradient>(Keep::inputs).samples<&axpby_samples>()
//       .kernel(DeviceType::cpu, f32, &axpby_cpu);
// Functions of an OpDef take `const A&` instead of `const void*`. By default an op takes as many
// inputs as it names arguments, or any number if it names none; inputs() changes the number.
// Defining a name twice throws Error.
Op& define_op(std::string_view name);
Op& get_op(std::string_view name);   // throws Error that lists similar names
Op* find_op(std::string_view name);  // nullptr if there is none
std::vector<const Op*> all_ops();    // by name
void set_kernel(std::string_view op, DeviceType type, DType dtype, Kernel kernel);
void set_kernels(DeviceType type, const KernelList& list);  // kernel_list.h

namespace detail {
// Result i may share input i's memory; ValueError unless 0 <= i < 32.
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

// Attributes of the ops that core itself calls by name: fill and copy move data, add and sum_to sum
// gradients. The families create, copy, elementwise and reduce define these ops.
struct FillAttrs {  // no input; fills the output, whose dtype and shape are `meta`
  Scalar value = 0;
  Meta meta;
};
struct CopyAttrs {  // one input; output of the same shape and this dtype; any strides
  DType dtype = f32;
};
struct BinaryAttrs {  // two inputs; or one input and `scalar`
  Scalar scalar = 0;
  bool scalar_first = false;
};
struct SumToAttrs {  // sums the axes along which the input was broadcast from `target`
  Meta target;
};

// An operand, borrowed for the call.
class Ref {
 public:
  Ref(const Tensor& t) : tensor_(&t) {}
  const Tensor* tensor_;
};
using Refs = std::initializer_list<Ref>;

// A reference to an op with attributes of type A. Look the op up once:
//   static const OpRef<SoftmaxAttrs> softmax("softmax");
//   return invoke(softmax, {x}, {.axis = 1});
template <class A = NoAttrs>
class OpRef {
 public:
  // Throws Error if there is no such op, ValueError if its attributes have another type.
  explicit OpRef(std::string_view name);
  operator const Op&() const { return op_; }

 private:
  const Op& op_;
};

namespace detail {
// Writes into results that are already defined. An op without inputs runs on *where. If `where` is
// null, the op runs on the first defined result's context, else on current_context().
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

// Runs an op with one result on its inputs' context (cpu(0) if all are pinned). The result has new
// memory there, except for views. If `out` is defined, invoke() writes into `out` and returns it.
// Errors: see Details.
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
// Runs an op without inputs (fill, uniform) on `where`.
template <class A = NoAttrs>
Tensor invoke_on(Context where, const Op& op, const A& attrs = {}) {
  Tensor out;
  detail::invoke(op, {}, AttrsView::of(attrs), &where, {&out, 1});
  return out;
}
// Runs an op with several results. Writes result i into out[i] if that is defined. If the number of
// results depends on the attributes, `out` must have that size.
template <class A = NoAttrs>
Tensors invoke_all(const Op& op, std::span<const Ref> in, const A& attrs = {}, Tensors out = {}) {
  if (const int n = op.results(in.size()); n > std::ssize(out)) out.resize(static_cast<size_t>(n));
  detail::invoke(op, in, AttrsView::of(attrs), nullptr, out);
  return out;
}
// Writes into existing tensors (out= and in-place forms). While recording, throws Error if an
// operand is part of the graph.
template <class A = NoAttrs>
void invoke_into(const Op& op, std::span<const Ref> in, std::span<const Ref> out,
                 const A& attrs = {}) {
  detail::invoke_into(op, in, AttrsView::of(attrs), out);
}
template <class A = NoAttrs>
void invoke_into(const Op& op, Refs in, Refs out, const A& attrs = {}) {
  detail::invoke_into(op, {in.begin(), in.size()}, AttrsView::of(attrs), {out.begin(), out.size()});
}

// --- Details ---

// All calls are checked before anything is allocated, launched or written:
//   - EmptyTensor: an undefined input.
//   - Error: a wrong number of inputs or results; an op without infer(), view() or function();
//     invoke() or invoke_all() of an op that writes in place; a defined result of a view op; a
//     defined result that is a broadcast view; under autograd::Record, a defined result if the
//     result or an input is in the graph.
//   - ValueError: attributes of another type than the op's (default: NoAttrs); two defined results
//     that share memory (results with gaps: that begin at the same byte).
//   - ContextMismatch: operands or defined results on different contexts. cpu_pinned() goes with
//     every cpu(i).
//   - ShapeError, DTypeError or ValueError: inputs or attributes that infer refuses.
//   - ShapeError or DTypeError: a defined result of another shape or dtype than inferred.
//   - DTypeError: no kernel for the device type and dtype. The text lists the dtypes that have one.
//   - Exception: function ops check contexts, shapes and dtypes in their function.
//   - A call launches the kernel that its check found: set_kernel() changes only later calls.
//   - Errors of invoke() name no line of the program. rethrow_at() (caller.h) adds the line.

// Defined results:
//   - If the kernel cannot write all defined results directly, invoke() makes the results in new
//     memory and copies them. This costs an allocation and a copy per result.
//   - A kernel cannot write a result that shares an input's storage, unless the two are the same
//     view and over_inputs or layout `strided` allows it.
//   - A kernel of another layout than `strided` cannot write a result that is not row-major.
//   - Ops that write in place always write directly. With layout `contiguous`, such ops throw
//     ShapeError for a result that is not row-major.

// Gradients:
//   - If a gradient function returns a wrong number of tensors, backward() throws Error.
//   - If a gradient has another shape than its input, and `broadcasts` is not set, backward()
//     throws ShapeError.

}  // namespace locus
