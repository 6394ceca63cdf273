// Tensor: a handle to a strided view of memory on one context.
//
// Copying a Tensor copies the handle; data moves only by copyto and as_in_context. Ops run where
// their inputs live and refuse mixed contexts. GPU work is asynchronous: reading on the host (item,
// to_vector, printing) waits for what it needs. Distinct Tensors may be used from distinct threads;
// one storage may be read from several threads at once.
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

// Where and as what to create. Unset: current_context(), and f32 or the elements' own dtype.
struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(Context c) : context(c) {}
  TensorOptions(DType d) : dtype(d) {}
  TensorOptions(Context c, DType d) : context(c), dtype(d) {}

  std::optional<Context> context;
  std::optional<DType> dtype;
};

struct CopyOptions {
  // true: on return the host's end is the program's again: its source read, its target filled.
  // Between devices nothing blocks: whatever uses the tensor waits there. false: never blocks; a
  // host's end must be page-locked (cpu_pinned), else Error.
  bool blocking = true;
};

// What backward does with a leaf's gradient. Scoped: a bare `write` would clash with POSIX.
enum class GradReq : uint8_t { write, add, null };

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis;
inline constexpr Ellipsis ellipsis;

// start:stop:step of one axis; negative positions count from the end, out-of-range ones are
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

// One entry of x(...): a position, a slice, newaxis or ellipsis. Knows the user's line.
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

// One entry of x(...) where a tensor is among them: the tensor, or what Index takes. Knows the
// user's line. Borrows the tensor for the duration of the full expression.
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

// The line of a call without other arguments. Braces, which are for options, do not make one.
struct LineOnly {
  LineOnly(Caller c) : from(c) {}
  Caller from;
};

// Stands for an entry that x(...) was not given.
struct NoIndex {};
template <class I>
concept BasicIndex = std::convertible_to<const I&, Index> || std::same_as<I, NoIndex>;

class Selection;       // ops/index.h: what x[mask] and x[ids] give
struct ReduceOptions;  // ops/reduce.h
struct TensorImpl;     // storage.h
struct BackwardOptions;

class Tensor {
 public:
  Tensor() = default;  // no tensor: defined() is false, and any use throws Error
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor(const Selection& s);  // gathers
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  // A name is rebound, as in Python; a temporary, such as a(0, Slice()), is written through.
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
  // The first element, in the context's own memory; valid while a handle to it lives. On the host
  // call wait_to_read() first. What is read or written through it is not ordered with queued work.
  void* data_ptr() const;

  // Both name one tensor, as Python's `is`: y.as_in_context(y.context()).is(y).
  bool is(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_memory_with(const Tensor& other) const;

  // Moving data: always new memory, also on the same context. On whatever streams and contexts:
  // after the writes that are pending, before those that come later. Beside compute, on a stream of
  // its own, unless a StreamScope names one.
  Tensor copyto(Context to, CopyOptions = {}, Caller = Caller::here()) const;
  // Into existing memory: shapes must match, the dtype is cast. Returns `into`.
  const Tensor& copyto(const Tensor& into, CopyOptions = {}, Caller = Caller::here()) const;
  // This tensor itself when it is there already, else copyto.
  Tensor as_in_context(Context to, Caller = Caller::here()) const;

  // Reading on the host: wait, copy, convert.
  template <Element T>
  T item(Caller from = Caller::here()) const {
    T value;
    read_item(dtype_of<T>(), &value, from);
    return value;
  }
  template <Element T>
  std::vector<T> to_vector(Caller from = Caller::here()) const;
  // Fills size() elements of `dtype` at `out`, row-major.
  void to_host(void* out, DType dtype, Caller = Caller::here()) const;
  void wait_to_read(Caller = Caller::here()) const;

  // Autograd (autograd.h).
  void attach_grad(GradReq req = GradReq::write, Caller = Caller::here()) const;
  // With a place of its own, such as a view into a bucket, contiguous or not; MXNet's
  // mark_variables. grad() is `place` itself; backward() writes into its memory, never elsewhere,
  // and attaching leaves its values. One context, shape and dtype with *this, outside any graph,
  // not a broadcast view and in another buffer than *this, else ContextMismatch, ShapeError,
  // DTypeError, Error. Keep gradients in buffers of their own: what is written into a buffer counts
  // as a change of all tensors in it, and backward() refuses those that it needs as they were.
  void attach_grad(const Tensor& place, GradReq req = GradReq::write,
                   Caller = Caller::here()) const;
  Tensor grad(Caller = Caller::here()) const;    // Error when no gradient is attached
  bool has_grad() const;                         // attach_grad was called, and not with null
  Tensor detach(Caller = Caller::here()) const;  // shares memory, outside the graph
  void zero_grad(Caller = Caller::here()) const;
  void backward(LineOnly = Caller::here()) const;
  void backward(const BackwardOptions&, Caller = Caller::here()) const;

  // Ops that read better as members, defined with the ops of their names. A closed list.
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
  Tensor clone(Caller = Caller::here()) const;  // copy(): new memory on the same context
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

  // For ops and core. Throws Error when !defined().
  TensorImpl& impl() const;
  const std::shared_ptr<TensorImpl>& handle() const { return impl_; }

 private:
  Tensor view(std::initializer_list<Index>, Caller) const;
  void read_item(DType dtype, void* out, Caller) const;

  std::shared_ptr<TensorImpl> impl_;
};

using Tensors = std::vector<Tensor>;

// Knows the line of `std::cout << x`. NumPy's text, then "<Tensor 2x3 @gpu(0)>"; a dtype other than
// f32 is named: "<Tensor 2x3 f64 @gpu(0)>". An empty Tensor prints "Tensor()".
std::ostream& operator<<(std::ostream& os, At<Tensor> x);

// New memory, not initialised: row-major, on c's current stream. Ops use it for results.
Tensor allocate(Context c, const Meta& m);
// x in new memory on its context, row-major and of this dtype. Not recorded.
Tensor row_major_copy(const Tensor& x, DType dtype);
// The same memory seen through another view; the storage is shared, the graph is not.
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
