// Data movement: copyto, an op across contexts; assignment and host reads, which call it.
#include <cstring>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/base/text.h>
#include <locus/core/call/register.h>
#include <locus/core/device.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>
#include <locus/core/tape/tape.h>
#include <locus/core/tensor.h>

namespace locus {
namespace {

bool same_memory(Context a, Context b) { return a == b || (is_host(a) && is_host(b)); }

// Ops refuse cpu(0) beside cpu(1), though both are host memory. For a copy, the source is viewed on
// the target's context.
Tensor on_context(const Tensor& x, Context c) {
  if (x.context() == c) return x;
  Tensor seen = alias(x, x.impl().view);
  seen.impl().context = c;
  return seen;
}

// The stream of a copy: that of a StreamScope, else `lane`, which runs beside compute.
StreamView copy_stream(Context c, Device& d, StreamView lane) {
  const StreamView current = current_stream(c, d);
  return current.id == d.stream(Lane::compute).id ? lane : current;
}

// The stream that fills existing memory: that of a StreamScope; else the memory's home, if that is
// a copy lane; else compute.
StreamView fill_stream(Context c, Device& d, StreamView home) {
  const StreamView current = current_stream(c, d);
  if (current.id != d.stream(Lane::compute).id) return current;
  for (const Lane lane : {Lane::to_device, Lane::peer})
    if (home.id == d.stream(lane).id) return home;
  return current;
}

// Why a replay cannot repeat such a copy, or null.
const char* not_replayable(Context from, Context to, bool blocking) {
  if (!is_host(from) && !is_host(to))
    return capture::runs() ? nullptr : "copies between devices are not recorded";
  if (from.type == DeviceType::cpu || to.type == DeviceType::cpu)
    return "pageable host memory is copied at once and not again by replays; copy before or after "
           "the "
           "recording, or use cpu_pinned()";
  return blocking ? "the host would wait for it; move it before or after, or by "
                    "x.copyto(context, {.blocking = false})"
                  : nullptr;
}

// Both are row-major, of one dtype and size, in different memories.
void transfer(const TensorImpl& from, const TensorImpl& to, bool blocking, Caller caller) {
  if (from.storage->bytes() == 0 || to.view.meta.size() == 0) return;
  const size_t bytes = bytes_of(from.view.meta);
  const bool up = is_host(from.context), down = is_host(to.context);
  const Context owner = down ? from.context : to.context;
  Device& d = device(owner);
  // A blocking read runs on the current stream, after the work that makes the data: errors of that
  // work surface here.
  StreamView s;
  if (down)
    s = blocking ? current_stream(owner, d) : copy_stream(owner, d, d.stream(Lane::to_host));
  else
    s = fill_stream(owner, d, to.storage->home());
  const tracing::Wait wait(blocking && (up || down) ? std::optional(owner) : std::nullopt);
  if (capture::active()) [[unlikely]] {
    if (const char* const why = not_replayable(from.context, to.context, blocking))
      capture::check("copyto", why);
    capture::check("copyto", owner, nullptr);
    capture::check_read(owner, "copyto", *from.storage);
    capture::note(owner, {.context = owner,
                          .dst = to.view.data,
                          .src = from.view.data,
                          .to = to.context,
                          .from = from.context,
                          .bytes = bytes,
                          .caller = caller});
    capture::touch(owner, from.storage, false);
    capture::touch(owner, to.storage, true);
    if (!capture::runs()) return;
  }
  from.storage->before_read(s);
  to.storage->before_write(s);
  Timeline* const line = s.id == 0 ? nullptr : &Timeline::of(s);
  if (line) line->before_copy(bytes);
  tracing::copy(d, to.view.data, to.context, from.view.data, from.context, bytes, s);
  const bool pinned =
      from.context.type == DeviceType::cpu_pinned || to.context.type == DeviceType::cpu_pinned;
  if (blocking && (down || (up && pinned))) {
    d.synchronize(s);
    return;  // all is done
  }
  // When copy() returns, pageable memory is free for the program.
  if (from.context.type != DeviceType::cpu) from.storage->after_read(s);
  to.storage->after_write(s);
  if (line && s.id != d.stream(Lane::compute).id) line->expect_waiters();
}

void check_blocking(const Tensor& from, Context to, const CopyOptions& options) {
  if (options.blocking) return;
  const bool pageable_source = from.context().type == DeviceType::cpu && !is_host(to);
  const bool pageable_target = to.type == DeviceType::cpu && !is_host(from.context());
  if (pageable_source || pageable_target)
    throw Error(
        "copyto: ", describe(from), " to ", to,
        " with blocking = false needs page-locked host memory; use a cpu_pinned() tensor on "
        "the host's side, or leave blocking = true");
}

// To a new tensor on `to`.
Tensor copy_to(const Tensor& x, Context to, const CopyOptions& options, Caller caller) {
  const TensorImpl& source = x.impl();
  check_blocking(x, to, options);
  if (same_memory(source.context, to)) {
    const Tensor out = allocate(to, source.view.meta);
    x.copyto(out, options, caller);
    return out;
  }
  const Tensor packed = source.contiguous ? x : row_major_copy(x, x.dtype());
  // The lane that fills new memory is its home, so an upload does not wait for compute. At first
  // use compute waits for the lane. A user's stream stays the home, because reads there leave no
  // number to wait for.
  Device& there = device(to);
  const StreamView lane = there.stream(is_host(source.context) ? Lane::to_device : Lane::peer);
  const StreamView filled_on = copy_stream(to, there, lane);
  View view = packed.impl().view;
  row_major(view.meta, view.stride);
  const Tensor target = make_tensor(to, view, filled_on);
  transfer(packed.impl(), target.impl(), options.blocking, caller);
  if (filled_on.id == lane.id) target.impl().storage->hand_over();
  return target;
}

// Into existing memory.
void copy_into(const Tensor& x, const Tensor& into, const CopyOptions& options, Caller caller) {
  const TensorImpl &source = x.impl(), &target = into.impl();
  if (x.shape() != into.shape())
    throw ShapeError("copyto: source ", describe(x), ", target ", describe(into),
                     "; expected equal shapes");
  check_blocking(x, target.context, options);
  if (source.view.data == target.view.data && source.storage == target.storage &&
      x.strides() == into.strides())
    return;
  if (same_memory(source.context, target.context)) {
    static const OpRef<CopyAttrs> copy("copy");
    const size_t bytes = bytes_of(target.view.meta);
    return tracing::host_copy(source.context, target.context, bytes, [&] {
      invoke_into(copy, {on_context(x, target.context)}, {into}, CopyAttrs{into.dtype()});
      if (capture::active() && bytes > 0 && source.context != target.context) [[unlikely]]
        capture::copied(source.context, target.context, bytes, caller);
    });
  }
  // Cast on the side that makes the copy smaller.
  const bool cast_first = size_of(into.dtype()) <= size_of(x.dtype());
  const DType sent = cast_first ? into.dtype() : x.dtype();
  const Tensor packed = source.contiguous && x.dtype() == sent ? x : row_major_copy(x, sent);
  if (target.contiguous && into.dtype() == sent)
    transfer(packed.impl(), target, options.blocking, caller);
  else
    packed.copyto(target.context, options, caller).copyto(into, {}, caller);
}

struct CopytoAttrs {
  Context to;
  CopyOptions options = {};
  Caller from = {};  // the gradient's copy is reported at this line, too
};

void copyto_function(std::span<const Ref> in, const CopytoAttrs& a, std::span<Tensor> out) {
  const Tensor& x = *in[0].tensor_;
  const tracing::Scope scope(TransferKind::copyto, a.from);
  if (out[0].defined())
    copy_into(x, out[0], a.options, a.from);
  else
    out[0] = copy_to(x, a.to, a.options, a.from);
}

Tensors copyto_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<CopyAttrs> copy("copy");
  Tensor dx = dout[0].as_in_context(saved.in_context(0), saved.attrs<CopytoAttrs>().from);
  const DType dtype = saved.in_dtype(0);
  return {dx.dtype() == dtype ? dx : invoke(copy, {dx}, CopyAttrs{dtype})};
}

Samples copyto_samples(Context c, DType d) {
  Samples samples;
  for (const Shape& shape : {Shape{2, 3}, Shape{37}, Shape{}}) {
    const Tensor x = allocate(c, make_meta(d, shape));
    const Tensor host = allocate(cpu(), make_meta(f64, shape));
    auto* const v = static_cast<double*>(host.data_ptr());
    for (int64_t i = 0; i < x.size(); ++i) v[i] = static_cast<double>(i % 2);
    host.copyto(x);
    samples.push_back(Sample({x}, CopytoAttrs{c}));
  }
  return samples;
}

const Op& copyto_op() {
  static const Op& op = OpDef<CopytoAttrs>("copyto", {"source"})
                            .function<&copyto_function>()
                            .gradient<&copyto_gradient>(Keep::none)
                            .samples<&copyto_samples>();
  return op;
}

void assign(const Tensor& target, const Tensor& values, Caller from) {
  detail::expect_tensor("assignment", target, "target");
  detail::expect_tensor("assignment", values, "values");
  if (target.is(values)) return;
  if (!mix(target.context(), values.context()))
    throw ContextMismatch("assignment: operands live on different contexts: target ",
                          describe(target), ", values ", describe(values),
                          "; move one first: values.as_in_context(", target.context(), ")");
  if (target.shape() == values.shape()) {
    values.copyto(target, {}, from);
    return;
  }
  if (!broadcasts_to(values.shape(), target.shape()))
    throw ShapeError("assignment: values ", describe(values), " do not broadcast to target ",
                     describe(target));
  const Ref in(values);
  check_in_place(copyto_op().name, {&in, 1}, target);
  alias(values, broadcast_view(values.impl().view, target.impl().view.meta))
      .copyto(target, {}, from);
}

}  // namespace

void register_copyto() { copyto_op(); }

Tensor row_major_copy(const Tensor& x, DType dtype) {
  static const OpRef<CopyAttrs> copy("copy");
  const Tensor out = allocate(x.context(), make_meta(dtype, x.shape()));
  const autograd::Pause pause(autograd::is_training());
  invoke_into(copy, {x}, {out}, CopyAttrs{dtype});
  return out;
}

Tensor Tensor::copyto(Context to, CopyOptions options, Caller from) const try {
  const UserLine user_line(from);
  return invoke(copyto_op(), {*this}, CopytoAttrs{to, options, from});
} catch (const Error&) {
  rethrow_at(from);
}

const Tensor& Tensor::copyto(const Tensor& into, CopyOptions options, Caller from) const try {
  const UserLine user_line(from);
  detail::expect_tensor("copyto", into, "target");
  invoke_into(copyto_op(), {*this}, {into}, CopytoAttrs{into.context(), options, from});
  return into;
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Tensor::as_in_context(Context to, Caller from) const try {
  detail::expect_tensor("as_in_context", *this, "source");
  return context() == to ? *this : copyto(to, {}, from);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor& Tensor::operator=(At<Tensor> given) && try {
  const UserLine user_line(given.from);
  assign(*this, given.value, given.from);
  return *this;
} catch (const Error&) {
  rethrow_at(given.from);
}

Tensor& Tensor::operator=(At<Scalar> given) && try {
  const UserLine user_line(given.from);
  static const OpRef<FillAttrs> fill("fill");
  invoke_into(fill, {}, {*this}, FillAttrs{given.value, impl().view.meta});
  return *this;
} catch (const Error&) {
  rethrow_at(given.from);
}

void Tensor::wait_to_read(Caller from) const try {
  const tracing::Scope scope(TransferKind::wait_to_read, from);
  capture::check_wait(context(), "wait_to_read", from);
  impl().storage->wait_host();
} catch (const Error&) {
  rethrow_at(from);
}

void Tensor::to_host(void* out, DType dtype, Caller from) const try {
  const UserLine user_line(from);
  const tracing::Scope scope(TransferKind::to_vector, from);
  capture::check_wait(context(), "to_vector", from);
  const Tensor detached = detach();
  Tensor host = detached;
  if (!is_host(context())) host = detached.copyto(cpu(), {}, from);
  if (host.dtype() != dtype || !host.contiguous()) host = row_major_copy(host, dtype);
  host.impl().storage->wait_host();
  if (size() > 0) std::memcpy(out, host.impl().view.data, bytes_of(host.impl().view.meta));
} catch (const Error&) {
  rethrow_at(from);
}

void Tensor::read_item(DType dtype, void* out, Caller from) const try {
  const tracing::Scope scope(TransferKind::item, from);
  capture::check_wait(context(), "item", from);
  if (size() != 1)
    throw ShapeError("item: ", describe(*this), " has ", size(),
                     " elements; expected one (use to_vector, or index it first)");
  to_host(out, dtype, from);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
