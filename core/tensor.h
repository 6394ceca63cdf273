// Tensor is a handle to a strided view of memory on one context.
//
// Copying a Tensor copies the handle. Only copyto and as_in_context move data. Ops run on the
// context of their inputs and refuse mixed contexts. GPU work is asynchronous: host reads (item,
// to_vector, printing) wait for the tensor's values. Threads may use distinct Tensors at the same
// time, and may read one storage at the same time.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/dtype.h>
#include <locus/core/error.h>
#include <locus/core/scalar.h>
#include <locus/core/shape.h>

namespace locus {

// Context and dtype of a new tensor. Defaults: current_context(), and f32 or the elements' dtype.
struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(Context c) : context(c) {}
  TensorOptions(DType d) : dtype(d) {}
  TensorOptions(Context c, DType d) : context(c), dtype(d) {}

  std::optional<Context> context;
  std::optional<DType> dtype;
};

struct CopyOptions {
  // true: on return, a host source has been read, and a host target is filled. Copies between
  // devices do not block; later uses of the tensor wait on the device. false: never blocks; a host
  // end must be page-locked (cpu_pinned), else Error.
  bool blocking = true;
};

// How backward treats a leaf's gradient. Scoped: a bare `write` would clash with POSIX.
enum class GradReq : uint8_t { write, add, null };

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis;
inline constexpr Ellipsis ellipsis;

// start:stop:step of one axis. Negative positions count from the end; out-of-range positions are
// clipped.
class Slice {
 public:
  Slice() = default;
  Slice(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1)
      : start_(start), stop_(stop), step_(step) {}
  std::optional<int64_t> start() const { return start_; }
  std::optional<int64_t> stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  std::optional<int64_t> start_, stop_;
  int64_t step_ = 1;
};

// One entry of x(...): a position, a slice, newaxis or ellipsis. Stores the user's line.
class Index {
 public:
  enum class Kind : uint8_t { position, slice, new_axis, rest };
  Index(Integer auto i, Caller from = Caller::here())
      : kind_(Kind::position), position_(static_cast<int64_t>(i)), from_(from) {}
  Index(Slice s, Caller from = Caller::here()) : kind_(Kind::slice), slice_(s), from_(from) {}
  Index(NewAxis, Caller from = Caller::here()) : kind_(Kind::new_axis), from_(from) {}
  Index(Ellipsis, Caller from = Caller::here()) : kind_(Kind::rest), from_(from) {}

  Kind kind() const { return kind_; }
  int64_t position() const { return position_; }
  const Slice& slice() const { return slice_; }
  Caller from() const { return from_; }

 private:
  Kind kind_;
  int64_t position_ = 0;
  Slice slice_;
  Caller from_;
};

class Tensor;

// One entry of x(...) if some entry is a tensor: a tensor, or any Index. Stores the user's line.
// Borrows the tensor for the duration of the full expression.
class Selector {
 public:
  explicit Selector() = default;  // no entry
  Selector(const Tensor& ids, Caller from = Caller::here())
      : given_(true), ids_(&ids), from_(from) {}
  template <class I>
  requires std::convertible_to<const I&, Index> Selector(const I& i) : given_(true), basic_(i) {}

  bool given() const { return given_; }
  const Tensor* ids() const { return ids_; }  // null for an Index
  const Index& basic() const { return basic_; }
  Caller from() const { return from_; }

 private:
  bool given_ = false;
  const Tensor* ids_ = nullptr;
  Index basic_ = Slice();
  Caller from_;
};

// The line of a call without other arguments. Braces are for options and do not convert to
// LineOnly.
struct LineOnly {
  LineOnly(Caller c) : from(c) {}
  Caller from;
};

// Stands for an entry that x(...) was not given.
struct NoIndex {};
template <class I>
concept BasicIndex = std::convertible_to<const I&, Index> || std::same_as<I, NoIndex>;

class Selection;       // ops/index.h: result of x[mask], x[ids]
struct ReduceOptions;  // ops/reduce.h
struct TensorImpl;     // storage.h
struct BackwardOptions;

class Tensor {
 public:
  Tensor() = default;  // empty: defined() is false, and any use throws Error
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor(const Selection& s);  // gathers
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  // Assignment to a name rebinds the name, as in Python. Assignment to a temporary, such as a(0,
  // Slice()), writes the elements.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  Tensor& operator=(At<Tensor> values) &&;
  Tensor& operator=(const Selection& values) &&;
  Tensor& operator=(At<Scalar> value) &&;

  bool defined() const { return impl_ != nullptr; }
  Context context() const;
  DType dtype() const;
  Shape shape() const;
  int ndim() const;
  int64_t size() const;
  std::vector<int64_t> strides() const;  // in elements
  bool contiguous() const;               // row-major without gaps
  // The first element, in the context's memory; valid while a handle to the memory lives. On the
  // host call wait_to_read() first. Access through the pointer is not ordered with queued work.
  void* data_ptr() const;

  // Whether both are one tensor, as Python's `is`: y.as_in_context(y.context()).is(y).
  bool is(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_memory_with(const Tensor& other) const;

  // Copies to new memory, also on the same context. Across all streams and contexts, the copy runs
  // after pending writes and before later writes. The copy runs beside compute on its own stream,
  // unless a StreamScope names one.
  Tensor copyto(Context to, CopyOptions = {}, Caller = Caller::here()) const;
  // Copies into existing memory: shapes must match, the dtype is cast. Returns `into`.
  const Tensor& copyto(const Tensor& into, CopyOptions = {}, Caller = Caller::here()) const;
  // This tensor itself if it is on `to` already, else copyto.
  Tensor as_in_context(Context to, Caller = Caller::here()) const;

  // Host reads: wait, copy, convert.
  template <Element T>
  T item(Caller from = Caller::here()) const {
    T value;
    read_item(dtype_of<T>(), &value, from);
    return value;
  }
  template <Element T>
  std::vector<T> to_vector(Caller from = Caller::here()) const;
  // Writes size() elements of `dtype` to `out`, row-major.
  void to_host(void* out, DType dtype, Caller = Caller::here()) const;
  void wait_to_read(Caller = Caller::here()) const;

  // Autograd (autograd.h).
  void attach_grad(GradReq req = GradReq::write, Caller = Caller::here()) const;
  // Attaches `place` as the gradient, such as a view into a bucket (MXNet's mark_variables),
  // contiguous or not. grad() is `place` itself; attaching keeps its values; backward() writes only
  // into its memory. Throws ContextMismatch, ShapeError or DTypeError unless context, shape and
  // dtype match *this; Error if `place` is in a graph, is a broadcast view, or shares a buffer with
  // *this. Keep gradients in separate buffers: a write counts as a change of all tensors in the
  // buffer, and backward() throws if a tensor that it needs has changed.
  void attach_grad(const Tensor& place, GradReq req = GradReq::write,
                   Caller = Caller::here()) const;
  Tensor grad(Caller = Caller::here()) const;    // Error if no gradient is attached
  bool has_grad() const;                         // attach_grad was called with write or add
  Tensor detach(Caller = Caller::here()) const;  // shares memory; not in the graph
  void zero_grad(Caller = Caller::here()) const;
  void backward(LineOnly = Caller::here()) const;
  void backward(const BackwardOptions&, Caller = Caller::here()) const;

  // Ops that read better as members, defined with the ops of the same names. A closed list.
  Tensor operator[](Index) const;
  Selection operator[](At<Tensor> ids) const;
  // x(1, Slice(2, 7), newaxis, ellipsis): at most eight entries, none of them a tensor.
  template <BasicIndex A = NoIndex, BasicIndex B = NoIndex, BasicIndex C = NoIndex,
            BasicIndex D = NoIndex, BasicIndex E = NoIndex, BasicIndex F = NoIndex,
            BasicIndex G = NoIndex, BasicIndex H = NoIndex>
  Tensor operator()(const A& a = {}, const B& b = {}, const C& c = {}, const D& d = {},
                    const E& e = {}, const F& f = {}, const G& g = {}, const H& h = {},
                    Caller from = Caller::here()) const {
    if constexpr (std::same_as<A, NoIndex>)
      return view({}, from);
    else if constexpr (std::same_as<B, NoIndex>)
      return view({a}, from);
    else if constexpr (std::same_as<C, NoIndex>)
      return view({a, b}, from);
    else if constexpr (std::same_as<D, NoIndex>)
      return view({a, b, c}, from);
    else if constexpr (std::same_as<E, NoIndex>)
      return view({a, b, c, d}, from);
    else if constexpr (std::same_as<F, NoIndex>)
      return view({a, b, c, d, e}, from);
    else if constexpr (std::same_as<G, NoIndex>)
      return view({a, b, c, d, e, f}, from);
    else if constexpr (std::same_as<H, NoIndex>)
      return view({a, b, c, d, e, f, g}, from);
    else
      return view({a, b, c, d, e, f, g, h}, from);
  }
  // At least one is a tensor.
  Selection operator()(const Selector&, const Selector& = Selector(), const Selector& = Selector(),
                       const Selector& = Selector(), const Selector& = Selector(),
                       const Selector& = Selector(), const Selector& = Selector(),
                       const Selector& = Selector()) const;
  Tensor reshape(const Shape&, Caller = Caller::here()) const;
  Tensor T(Caller = Caller::here()) const;
  Tensor transpose(std::span<const int> axes, Caller = Caller::here()) const;
  Tensor transpose(std::initializer_list<int> axes = {}, Caller = Caller::here()) const;
  Tensor astype(DType, Caller = Caller::here()) const;
  Tensor clone(Caller = Caller::here()) const;  // copy(): new memory; see ops/copy.h
  Tensor take(const Tensor& ids, Caller = Caller::here()) const;
  Tensor sum(LineOnly = Caller::here()) const;
  Tensor sum(const ReduceOptions&, Caller = Caller::here()) const;
  template <class Options = ReduceOptions>
  Tensor sum(Integer auto axis, Caller from = Caller::here()) const {
    return sum(Options{.axis = axis}, from);
  }
  Tensor mean(LineOnly = Caller::here()) const;
  Tensor mean(const ReduceOptions&, Caller = Caller::here()) const;
  template <class Options = ReduceOptions>
  Tensor mean(Integer auto axis, Caller from = Caller::here()) const {
    return mean(Options{.axis = axis}, from);
  }
  Tensor max(LineOnly = Caller::here()) const;
  Tensor max(const ReduceOptions&, Caller = Caller::here()) const;
  template <class Options = ReduceOptions>
  Tensor max(Integer auto axis, Caller from = Caller::here()) const {
    return max(Options{.axis = axis}, from);
  }
  Tensor min(LineOnly = Caller::here()) const;
  Tensor min(const ReduceOptions&, Caller = Caller::here()) const;
  template <class Options = ReduceOptions>
  Tensor min(Integer auto axis, Caller from = Caller::here()) const {
    return min(Options{.axis = axis}, from);
  }

  // For ops and core. Throws Error if !defined().
  TensorImpl& impl() const;
  const std::shared_ptr<TensorImpl>& handle() const { return impl_; }

 private:
  Tensor view(std::initializer_list<Index>, Caller) const;
  void read_item(DType dtype, void* out, Caller) const;

  std::shared_ptr<TensorImpl> impl_;
};

using Tensors = std::vector<Tensor>;

// Prints NumPy's text, then "<Tensor 2x3 @gpu(0)>", with the dtype unless f32: "<Tensor 2x3 f64
// @gpu(0)>". An empty Tensor prints "Tensor()". Errors name the line of `std::cout << x`.
std::ostream& operator<<(std::ostream& os, At<Tensor> x);

// New uninitialised memory: row-major, on c's current stream. Ops use it for results.
Tensor allocate(Context c, const Meta& m);
// A copy of x in new memory on x's context, row-major and of this dtype. Not recorded.
Tensor row_major_copy(const Tensor& x, DType dtype);
// Another view of the same memory. Shares the storage, but not the graph.
Tensor alias(const Tensor& of, const View& view);
// "gpu(0) (2,3) f32": how errors name an operand.
std::string describe(const Tensor& x);

template <Element T>
std::vector<T> Tensor::to_vector(Caller from) const {
  if constexpr (std::same_as<T, bool>) {
    std::vector<uint8_t> bytes(static_cast<size_t>(size()));
    to_host(bytes.data(), bool_, from);
    return std::vector<bool>(bytes.begin(), bytes.end());
  } else {
    std::vector<T> values(static_cast<size_t>(size()));
    to_host(values.data(), dtype_of<T>(), from);
    return values;
  }
}

}  // namespace locus
