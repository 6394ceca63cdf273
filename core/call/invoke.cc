// The path of every op call. invoke() has the steps of each call from top to bottom. Most error
// texts are in invoke_check.cc, so that the path stays short.
#include <algorithm>
#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/base/environment.h>
#include <locus/core/base/layout.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/nan_check.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>
#include <locus/core/tape/tape.h>

namespace locus::detail {

bool sync_each() {
  static const bool on = environment_number("LOCUS_SYNC", 0, 1).value_or(0) == 1;
  return on;
}

namespace {

// An array on the stack if it is short, as nearly always.
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
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::span<T> span() { return {data_, n_}; }
  size_t size() const { return n_; }

 private:
  T inline_[N];
  T* data_;
  size_t n_;
  std::unique_ptr<T[]> heap_;
};

bool same_shape(const Meta& a, const Meta& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Gives `out` the layout of the first input with the result's shape that is dense and not row-major
// (K-order), else row-major.
void choose_layout(std::span<const View> in, View& out) {
  for (const View& v : in) {
    if (!same_shape(v.meta, out.meta) || v.contiguous() || !dense(v)) continue;
    std::copy(v.stride, v.stride + out.meta.rank, out.stride);
    return;
  }
  row_major(out.meta, out.stride);
}

// One call of an op with kernels, from its operands to the launch.
class Invocation {
 public:
  Invocation(const Op& op, std::span<const Ref> in, const AttrsView& attrs, size_t n_out)
      : op_(op), in_(in), attrs_(attrs), in_metas_(in.size()), in_views_(in.size()), out_(n_out) {
    for (size_t i = 0; i < in.size(); ++i) {
      const TensorImpl& t = *in[i].tensor_->handle();
      in_metas_[i] = t.view.meta;
      in_views_[i] = t.view;
    }
    Buffer<Meta, 2> metas(n_out);
    try {
      column_ = op.infer({in_metas_.data(), in.size()}, attrs.data, metas.span());
    } catch (const Error&) {
      rethrow(op, in);
    }
    for (size_t i = 0; i < n_out; ++i) out_[i].meta = metas[i];
  }

  // Sets the context. Throws before anything is allocated.
  void on(Context c) {
    context_ = c;
    device_ = &device(c);
    stream_ = current_stream(c, *device_);
    kernel_ = op_.kernel(device_->kernels(), column_);
    if (!kernel_) [[unlikely]]
      no_kernel(op_, in_, c, device_->kernels(), column_);
    if (capture::active()) [[unlikely]] {
      capture::check(op_.name, op_.no_capture);
      capture::check(op_.name, context_, &stream_);
    }
    if (op_.layout == Layout::contiguous)
      for (size_t i = 0; i < in_.size(); ++i) {
        if (in_[i].tensor_->handle()->contiguous) [[likely]]
          continue;
        copies_.push_back(row_major_copy(*in_[i].tensor_, in_metas_[i].dtype));
        in_views_[i] = copies_.back().impl().view;
      }
    if (!op_.broadcasts) return;
    for (size_t i = 0; i < in_.size(); ++i)
      if (!same_shape(in_metas_[i], out_[0].meta))
        in_views_[i] = broadcast_view(in_views_[i], out_[0].meta);
  }

  Tensor make_output(size_t i) {
    View& v = out_[i];
    if (op_.layout == Layout::strided)
      choose_layout({in_views_.data(), in_.size()}, v);
    else
      row_major(v.meta, v.stride);
    Tensor made = make_tensor(context_, v, stream_);
    v.data = made.handle()->view.data;
    return made;
  }

  // Throws if result i cannot be written into `target` without a conversion.
  void check_target(size_t i, const Tensor& target) const {
    const Meta &meta = out_[i].meta, &wanted = target.handle()->view.meta;
    const auto which = [&] { return out_.size() == 1 ? "the result" : text_of("result ", i); };
    try {
      if (!same_shape(meta, wanted))
        throw ShapeError(which(), " has shape ", Shape(meta),
                         ", the target that it should be written into ", Shape(wanted),
                         "; expected equal shapes");
      if (meta.dtype != wanted.dtype)
        throw DTypeError(which(), " is ", name(meta.dtype),
                         ", the target that it should be written into ", name(wanted.dtype),
                         "; expected equal dtypes");
      if (op_.in_place && op_.layout == Layout::contiguous && !target.contiguous())
        throw ShapeError("the target ", describe(target),
                         ", which is written in place, has gaps or another order; expected a "
                         "contiguous tensor; pass contiguous(x), and copy back what is written");
    } catch (const Error&) {
      rethrow(op_, in_);
    }
  }
  // Whether the kernel may write result k directly to `target`, without reading what it has
  // overwritten, and without writing row-major results to another layout.
  bool direct(size_t k, const Tensor& target) const {
    const TensorImpl& t = *target.handle();
    if (op_.in_place) return true;
    if (op_.layout != Layout::strided && !t.contiguous) return false;
    for (size_t i = 0; i < in_.size(); ++i) {
      const View& v = in_views_[i];
      const bool same_view = v.data == t.view.data && same_shape(v.meta, t.view.meta) &&
                             std::equal(v.stride, v.stride + v.meta.rank, t.view.stride);
      const bool over =
          op_.layout == Layout::strided || (i == k && i < 32 && op_.over_inputs >> i & 1);
      if (in_[i].tensor_->handle()->storage == t.storage && !(over && same_view)) return false;
    }
    return true;
  }
  void set_output(size_t i, const Tensor& target) { out_[i] = target.handle()->view; }

  // `out(i)` is result i. `fresh`: all are new memory of this call.
  void run(const auto& out, bool fresh) {
    const size_t n_out = out_.size();
    bool empty = true;
    for (size_t i = 0; i < n_out; ++i) empty = empty && out_[i].meta.size() == 0;
    if (empty) return;
    capture::RecordedCall noted;
    if (capture::active()) [[unlikely]] {
      noted = note(out);
      if (!capture::runs()) return;
    }
    if (reads::watched()) [[unlikely]]
      tell_reads();
    for (const Ref& r : in_) r.tensor_->handle()->storage->order_read(stream_);
    if (!fresh)
      for (size_t i = 0; i < n_out; ++i) out(i).handle()->storage->before_write(stream_);
    if (stream_.id != 0) Timeline::of(stream_).before_launch();
    if (noted.call) [[unlikely]] {
      noted.replay->run(*noted.call, stream_, true);
    } else {
      const Call call{in_views_.data(),
                      out_.data(),
                      static_cast<int>(in_.size()),
                      static_cast<int>(n_out),
                      attrs_.data,
                      attrs_.size,
                      stream_,
                      attrs_.owner};
      tracing::launch(*device_, kernel_, call, NamedCalls::name(op_));
    }
    if (sync_each()) [[unlikely]]
      device_->synchronize(stream_);
    for (const Ref& r : in_) r.tensor_->handle()->storage->after_read(stream_);
    for (size_t i = 0; i < n_out; ++i) out(i).handle()->storage->after_write(stream_);
    if (checks_nan() && !capture::active()) [[unlikely]]
      for (size_t i = 0; i < n_out; ++i) refuse_nan(op_, in_, out(i));
  }

 private:
  // Errors name the operand that a recomputed function may not read.
  void tell_reads() const {
    size_t operand = 0;
    try {
      for (; operand < in_.size(); ++operand) in_[operand].tensor_->handle()->storage->tell_read();
    } catch (const Error&) {
      rethrow(op_, in_, operand);
    }
  }
  // Records the launch, its reads and its writes.
  capture::RecordedCall note(const auto& out) const {
    size_t copied = 0;
    const auto read = [&](size_t i) -> const std::shared_ptr<Storage>& {
      const bool copy =
          copied < copies_.size() && in_views_[i].data == copies_[copied].handle()->view.data;
      return (copy ? copies_[copied++] : *in_[i].tensor_).handle()->storage;
    };
    for (size_t i = 0; i < in_.size(); ++i) capture::check_read(context_, op_.name, *read(i));
    ReplayCall call{.context = context_,
                    .op = &op_,
                    .kernel = kernel_,
                    .launch_name = NamedCalls::name(op_),
                    .views = {in_views_.data(), in_views_.data() + in_.size()},
                    .n_in = static_cast<int>(in_.size()),
                    .attrs = attrs_};
    call.views.insert(call.views.end(), out_.data(), out_.data() + out_.size());
    const capture::RecordedCall noted = capture::note(context_, std::move(call));
    copied = 0;
    for (size_t i = 0; i < in_.size(); ++i) capture::touch(context_, read(i), false);
    for (size_t i = 0; i < out_.size(); ++i)
      capture::touch(context_, out(i).handle()->storage, true);
    return noted;
  }

  const Op& op_;
  const std::span<const Ref> in_;
  const AttrsView& attrs_;
  Buffer<Meta, 4> in_metas_;
  Buffer<View, 4> in_views_;
  Buffer<View, 2> out_;
  Tensors copies_;  // row-major, of inputs that are not
  DType column_ = f32;
  Kernel kernel_ = nullptr;  // looked up once: set_kernel() may replace it meanwhile
  Context context_;
  Device* device_ = nullptr;
  StreamView stream_;
};

// Defined targets must be on the inputs' context.
void check_contexts(const Op& op, std::span<const Ref> in, const auto& out) {
  std::vector<Ref> all(in.begin(), in.end());
  all.insert(all.end(), out.begin(), out.end());
  common_context(op, all, in.size());
}

// Targets must fit the results, and not share memory.
void check_targets(const Op& op, std::span<const Ref> in, const Invocation& call,
                   std::span<const Ref> out) {
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].tensor_->defined()) call.check_target(i, *out[i].tensor_);
  if (out.size() == 1) return;
  std::vector<Ref> all(in.begin(), in.end());
  all.insert(all.end(), out.begin(), out.end());
  check_apart(op, all, in.size());
}

// Writes all results to new memory.
void run_fresh(Invocation& call, std::span<Tensor> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = call.make_output(i);
  call.run([&](size_t i) -> const Tensor& { return out[i]; }, true);
}

// Writes result i to `target(i)`. If the kernel cannot write all targets, copies from new memory.
// There, on a GPU, an element that the kernel leaves out because of a bad index is the target's.
void run_into(Invocation& call, size_t n_out, const auto& target) {
  bool direct = true;
  for (size_t i = 0; i < n_out; ++i) direct = direct && call.direct(i, target(i));
  if (!direct) {
    Tensors fresh(n_out);
    const autograd::Pause pause(autograd::is_training());
    for (size_t i = 0; i < n_out; ++i) {
      fresh[i] = call.make_output(i);
      if (target(i).context().type == DeviceType::gpu) target(i).copyto(fresh[i]);
    }
    call.run([&](size_t i) -> const Tensor& { return fresh[i]; }, false);
    for (size_t i = 0; i < n_out; ++i) fresh[i].copyto(target(i));
    return;
  }
  for (size_t i = 0; i < n_out; ++i) call.set_output(i, target(i));
  call.run(target, false);
}

void run_function(const Op& op, std::span<const Ref> in, const AttrsView& attrs,
                  std::span<Tensor> out) {
  for (size_t i = 0; i < in.size(); ++i) checked(op, in[i], i, in.size());
  if (capture::active()) [[unlikely]]
    capture::check(op.name, op.no_capture);
  if (!op.gradient || !autograd::is_recording()) [[likely]]
    return op.function(in, attrs.data, out);
  const autograd::Pause pause(autograd::is_training());
  op.function(in, attrs.data, out);
}

// The context of the inputs. Without inputs: *where, else the first target's, else the current.
Context context_of(const Op& op, std::span<const Ref> in, const Context* where,
                   std::span<const Tensor> out) {
  if (!in.empty()) [[likely]]
    return common_context(op, in, in.size());
  if (where) return *where;
  const auto target = std::find_if(out.begin(), out.end(), std::mem_fn(&Tensor::defined));
  return target == out.end() ? current_context() : target->context();
}

}  // namespace

void invoke(const Op& op, std::span<const Ref> in, const AttrsView& attrs, const Context* where,
            std::span<Tensor> out) try {
  const memory_events::RunningOp running([&] { return NamedCalls::name(op); });
  check_call(op, in, attrs, out.size());
  if (op.in_place) [[unlikely]]
    throw Error(op.name, ": writes in place; call invoke_into");
  for (const Tensor& target : out)
    if (target.defined()) check_in_place(op.name, in, target);
  if (op.function) [[unlikely]] {
    run_function(op, in, attrs, out);
    if (!op.gradient) return;
  } else {
    const Context c = context_of(op, in, where, out);
    if (op.make_view) {
      if (out[0].defined()) is_view(op);
      const Tensor& base = *in[0].tensor_;
      try {
        out[0] = alias(base, op.make_view(base.handle()->view, attrs.data));
      } catch (const Error&) {
        rethrow(op, in);
      }
    } else {
      const bool targets = std::ranges::any_of(out, &Tensor::defined);
      if (targets) check_contexts(op, in, out);
      Invocation call(op, in, attrs, out.size());
      if (targets) check_targets(op, in, call, std::vector<Ref>(out.begin(), out.end()));
      call.on(c);
      if (targets) {
        for (size_t i = 0; i < out.size(); ++i)
          if (!out[i].defined()) out[i] = call.make_output(i);
        run_into(call, out.size(), [&](size_t i) -> const Tensor& { return out[i]; });
      } else {
        run_fresh(call, out);
      }
    }
  }
  if (autograd::is_recording())
    record(op, in, attrs, out);
  else
    leave_unrecorded(op, in, out);
} catch (const OutOfMemory&) {
  rethrow_out_of_memory(op, in);
}

void invoke_into(const Op& op, std::span<const Ref> in, const AttrsView& attrs,
                 std::span<const Ref> out) try {
  const memory_events::RunningOp running([&] { return NamedCalls::name(op); });
  check_call(op, in, attrs, out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    checked(op, out[i], in.size() + i, in.size());
    check_in_place(op.name, in, *out[i].tensor_);
  }
  if (op.function) [[unlikely]] {
    Buffer<Tensor, 2> targets(out.size());
    for (size_t i = 0; i < out.size(); ++i) targets[i] = *out[i].tensor_;
    return run_function(op, in, attrs, targets.span());
  }
  if (op.make_view) is_view(op);
  check_contexts(op, in, out);
  Invocation call(op, in, attrs, out.size());
  check_targets(op, in, call, out);
  call.on(out[0].tensor_->context());
  run_into(call, out.size(), [&](size_t i) -> const Tensor& { return *out[i].tensor_; });
} catch (const OutOfMemory&) {
  rethrow_out_of_memory(op, in);
}

}  // namespace locus::detail
