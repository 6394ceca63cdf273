// The path of every op call. What happens on each call is in invoke() from top to bottom; what
// happens on errors is apart, so that the path stays short.
#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/core/environment.h>
#include <locus/core/error.h>
#include <locus/core/graph.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/core/stream.h>
#include <locus/core/trace.h>

namespace locus::detail {
namespace {

// LOCUS_SYNC=1 waits after each op, so that an asynchronous error surfaces at the call that caused
// it.
bool sync_each() {
  static const bool on = environment_number("LOCUS_SYNC", 0, 1).value_or(0) == 1;
  return on;
}

// An array on the stack when it is short, as it nearly always is.
template <class T, size_t N>
class Buffer {
 public:
  explicit Buffer(size_t n) : data_(inline_), n_(n) {
    if (n > N) {
      heap_ = std::make_unique<T[]>(n);
      data_ = heap_.get();
    }
  }
  T& operator[](size_t i) { return data_[i]; }
  T* data() { return data_; }
  std::span<T> span() { return {data_, n_}; }

 private:
  T inline_[N];
  T* data_;
  size_t n_;
  std::unique_ptr<T[]> heap_;
};

// Of the i-th operand; the inputs come first, n of them.
std::string argument_name(const Op& op, size_t i, size_t n) {
  if (i >= n) return "out";
  if (i < op.arguments.size()) return op.arguments[i];
  if (n == 2 && op.arguments.empty()) return i == 0 ? "lhs" : "rhs";
  return "input " + std::to_string(i);
}

std::string list_operands(const Op& op, std::span<const Ref> all, size_t n_in) {
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 8) return text + ", ... (" + std::to_string(all.size()) + " operands)";
    text += (i > 0 ? ", " : "") + argument_name(op, i, n_in) + " " + describe(*all[i].tensor_);
  }
  return text;
}
std::string list_operands(const Op& op, std::span<const Ref> in) {
  return list_operands(op, in, in.size());
}

[[noreturn]] void context_mismatch(const Op& op, std::span<const Ref> all, size_t n_in,
                                   size_t other) {
  const std::string a = argument_name(op, 0, n_in), b = argument_name(op, other, n_in);
  const std::string here = to_string(all[0].tensor_->context());
  const std::string text =
      op.name + ": operands live on different contexts: " + list_operands(op, all, n_in);
  if (other >= n_in) throw ContextMismatch(text + "; expected " + b + " on " + here);
  throw ContextMismatch(text + "; move one first: " + b + ".as_in_context(" + here + ") or " + a +
                        ".as_in_context(" + to_string(all[other].tensor_->context()) + ")");
}

// Rethrows what infer threw with the op's name and operands in front.
[[noreturn]] void rethrow(const Op& op, std::span<const Ref> in) {
  const auto prefix = [&] {
    return op.name + ": " + list_operands(op, in) + (in.empty() ? "" : ": ");
  };
  try {
    throw;
  } catch (const ShapeError& e) {
    throw ShapeError(prefix() + e.what());
  } catch (const DTypeError& e) {
    throw DTypeError(prefix() + e.what());
  } catch (const IndexError& e) {
    throw IndexError(prefix() + e.what());
  }
}

[[noreturn]] void no_kernel(const Op& op, std::span<const Ref> in, Context c, DeviceType type,
                            DType dtype) {
  std::string listed;
  for (int d = 0; d < kNumDTypes; ++d)
    if (op.kernel(type, static_cast<DType>(d)))
      listed += std::string(listed.empty() ? "" : ", ") + name(static_cast<DType>(d));
  throw DTypeError(op.name + ": " + list_operands(op, in) + ": no kernel for " + name(dtype) +
                   " on " + to_string(c) + "; " +
                   (listed.empty() ? "it has none for this device" : "expected one of " + listed));
}

const TensorImpl& checked(const Op& op, const Ref& r) {
  if (!r.tensor_->defined()) [[unlikely]]
    throw Error(op.name + ": an operand is an empty Tensor (default-constructed or moved from)");
  return *r.tensor_->handle();
}

// The context an op runs on. cpu and cpu_pinned are one memory: they mix, and the result is on the
// first cpu operand's context, cpu(0) when all are pinned.
Context common_context(const Op& op, std::span<const Ref> all, size_t n_in) {
  Context c = checked(op, all[0]).context;
  bool plain = c.type != DeviceType::cpu_pinned;
  for (size_t i = 1; i < all.size(); ++i) {
    const Context other = checked(op, all[i]).context;
    if (other == c) [[likely]]
      continue;
    if (!is_host(c) || !is_host(other) || (plain && other.type == DeviceType::cpu))
      context_mismatch(op, all, n_in, i);
    if (!plain) {
      c = other;
      plain = other.type == DeviceType::cpu;
    }
  }
  return plain ? c : cpu(0);
}

// Gives `out` the layout of the first input that has the result's shape and no gaps (K-order), else
// row-major.
void choose_layout(std::span<const View> in, View& out) {
  for (const View& v : in) {
    if (v.meta.rank != out.meta.rank) continue;
    bool same = true;
    for (int i = 0; i < out.meta.rank; ++i) same = same && v.meta.shape[i] == out.meta.shape[i];
    if (!same || v.contiguous()) continue;
    // Dense when the axes, sorted by stride, follow each other without gaps.
    int64_t expected = 1;
    int used = 0;
    for (int found = 0; found < out.meta.rank; ++found) {
      int next = -1;
      for (int i = 0; i < out.meta.rank; ++i)
        if (!(used >> i & 1) && (v.meta.shape[i] == 1 || v.stride[i] == expected)) {
          next = i;
          break;
        }
      if (next < 0) break;
      used |= 1 << next;
      expected *= v.meta.shape[next];
    }
    if (used != (1 << out.meta.rank) - 1) continue;
    std::copy(v.stride, v.stride + out.meta.rank, out.stride);
    return;
  }
  row_major(out.meta, out.stride);
}

bool same_shape(const Meta& a, const Meta& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

struct Inputs {
  explicit Inputs(std::span<const Ref> in)
      : refs(in), metas(in.size()), views(in.size()), copies(0) {}

  // Metas and views of the operands; row-major copies where the op asks for them.
  void load(const Op& op) {
    for (size_t i = 0; i < refs.size(); ++i) {
      const TensorImpl& t = *refs[i].tensor_->handle();
      metas[i] = t.view.meta;
      if (op.layout == Layout::contiguous && !t.contiguous) [[unlikely]] {
        copies.push_back(row_major_copy(*refs[i].tensor_, metas[i].dtype));
        views[i] = copies.back().impl().view;
      } else {
        views[i] = t.view;
      }
    }
  }
  void before(StreamView s) {
    for (const Ref& r : refs) r.tensor_->handle()->storage->before_read(s);
  }
  void after(StreamView s) {
    for (const Ref& r : refs) r.tensor_->handle()->storage->after_read(s);
  }

  std::span<const Ref> refs;
  Buffer<Meta, 4> metas;
  Buffer<View, 4> views;
  Tensors copies;
};

// The op has a kernel there.
void run(const Op& op, Device& d, DType column, Inputs& in, View* out, size_t n_out,
         const void* attrs, int size, StreamView stream) {
  const Call call{
      in.views.data(), out, static_cast<int>(in.refs.size()), static_cast<int>(n_out), attrs, size,
      stream};
  if (stream.id != 0) Timeline::of(stream).before_launch();
  trace::launch(d, op.kernel(d.kernels(), column), call, op.name.c_str());
  if (sync_each()) [[unlikely]]
    d.synchronize(stream);
}

void make_views(const Op& op, std::span<const Ref> in, const void* attrs, std::span<Tensor> out) {
  const Tensor& base = *in[0].tensor_;
  const View v = op.make_view(base.handle()->view, attrs);
  out[0] = alias(base, v);
}

}  // namespace

void invoke(const Op& op, std::span<const Ref> in, const void* attrs, int size, Context where,
            bool has_where, std::span<Tensor> out) {
  const Context c =
      in.empty() ? (has_where ? where : current_context()) : common_context(op, in, in.size());
  if (op.make_view) {
    make_views(op, in, attrs, out);
    if (autograd::is_recording()) record(op, in, attrs, size, out);
    return;
  }
  Inputs inputs(in);
  inputs.load(op);
  Buffer<Meta, 2> metas(out.size());
  DType column;
  try {
    column = op.infer({inputs.metas.data(), in.size()}, attrs, metas.span());
  } catch (const Error&) {
    rethrow(op, in);
  }
  Device& d = device(c);
  const StreamView stream = current_stream(c, d);
  if (!op.kernel(d.kernels(), column)) [[unlikely]]
    no_kernel(op, in, c, d.kernels(), column);

  if (op.broadcasts)
    for (size_t i = 0; i < in.size(); ++i)
      if (!same_shape(inputs.metas[i], metas[0]))
        inputs.views[i] = broadcast_view(inputs.views[i], metas[0]);
  Buffer<View, 2> views(out.size());
  bool empty = true;
  for (size_t i = 0; i < out.size(); ++i) {
    View v{nullptr, metas[i], {}};
    if (op.layout == Layout::strided) {
      choose_layout({inputs.views.data(), in.size()}, v);
    } else {
      row_major(v.meta, v.stride);
    }
    const size_t bytes = bytes_of(v.meta);
    empty = empty && bytes == 0;
    auto impl = std::make_shared<TensorImpl>();
    impl->storage = std::make_shared<Storage>(c, bytes, stream);
    v.data = impl->storage->data();
    impl->view = views[i] = v;
    impl->context = c;
    impl->contiguous = op.layout != Layout::strided || v.contiguous();
    out[i] = Tensor(std::move(impl));
  }
  if (!empty) {
    inputs.before(stream);
    run(op, d, column, inputs, views.data(), out.size(), attrs, size, stream);
    inputs.after(stream);
    for (const Tensor& t : out) t.handle()->storage->after_write(stream);
  }
  if (autograd::is_recording()) record(op, in, attrs, size, out);
}

void invoke_into(const Op& op, std::span<const Ref> in, const void* attrs, int size,
                 std::span<const Ref> out) {
  std::vector<Ref> all(in.begin(), in.end());
  all.insert(all.end(), out.begin(), out.end());
  common_context(op, all, in.size());
  const Context c = checked(op, out[0]).context;
  for (const Ref& target : out) check_in_place(op, in, *target.tensor_);

  Inputs inputs(in);
  inputs.load(op);
  Buffer<Meta, 2> metas(out.size());
  DType column;
  try {
    column = op.infer({inputs.metas.data(), in.size()}, attrs, metas.span());
    for (size_t i = 0; i < out.size(); ++i) {
      const Meta& target = out[i].tensor_->handle()->view.meta;
      if (!same_shape(metas[i], target))
        throw ShapeError("the result has shape " + to_string(Shape(metas[i])) +
                         ", the target that it should be written into " + to_string(Shape(target)) +
                         "; expected equal shapes");
      if (metas[i].dtype != target.dtype)
        throw DTypeError(std::string("the result is ") + name(metas[i].dtype) +
                         ", the target that it should be written into " + name(target.dtype) +
                         "; expected equal dtypes");
    }
  } catch (const Error&) {
    rethrow(op, in);
  }
  Device& d = device(c);
  const StreamView stream = current_stream(c, d);
  if (!op.kernel(d.kernels(), column)) [[unlikely]]
    no_kernel(op, in, c, d.kernels(), column);

  if (op.broadcasts)
    for (size_t i = 0; i < in.size(); ++i)
      if (!same_shape(inputs.metas[i], metas[0]))
        inputs.views[i] = broadcast_view(inputs.views[i], metas[0]);
  Buffer<View, 2> views(out.size());
  bool empty = true;
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorImpl& t = *out[i].tensor_->handle();
    views[i] = t.view;
    empty = empty && t.view.meta.size() == 0;
    if (op.in_place) continue;
    // A kernel that only writes row-major results, or would read what it has overwritten, works in
    // fresh memory first.
    bool detour = op.layout != Layout::strided && !t.contiguous;
    for (size_t j = 0; j < in.size(); ++j) {
      const View& v = inputs.views[j];
      const bool same_view = v.data == t.view.data && same_shape(v.meta, t.view.meta) &&
                             std::equal(v.stride, v.stride + v.meta.rank, t.view.stride);
      const bool shared = in[j].tensor_->handle()->storage == t.storage;
      detour = detour || (shared && !(op.layout == Layout::strided && same_view));
    }
    if (!detour) continue;
    Tensors fresh(out.size());
    const autograd::Pause pause(autograd::is_training());
    invoke(op, in, attrs, size, c, true, fresh);
    for (size_t k = 0; k < out.size(); ++k) fresh[k].copyto(*out[k].tensor_);
    return;
  }
  if (empty) return;
  inputs.before(stream);
  for (const Ref& target : out) target.tensor_->handle()->storage->before_write(stream);
  run(op, d, column, inputs, views.data(), out.size(), attrs, size, stream);
  inputs.after(stream);
  for (const Ref& target : out) target.tensor_->handle()->storage->after_write(stream);
}

}  // namespace locus::detail
