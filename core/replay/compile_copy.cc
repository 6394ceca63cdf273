#include <locus/core/replay/compile_copy.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/base/layout.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/core/stream.h>

namespace locus::compiled {
namespace {

// The elements of a dense view in memory order.
View flat(const View& v) {
  View view{v.data, {.dtype = v.meta.dtype, .rank = 1}, {1}};
  view.meta.shape[0] = v.meta.size();
  return view;
}

bool same_place(const TensorImpl& a, const TensorImpl& b) {
  return a.view.data == b.view.data && a.storage == b.storage && same_layout(a.view, b.view);
}

// The elements without repetition.
Tensor once(const Tensor& t) {
  View view = t.impl().view;
  for (int i = 0; i < view.meta.rank; ++i)
    if (view.stride[i] == 0) view.meta.shape[i] = 1;
  return alias(t, view);
}

}  // namespace

Tensor same_strides(const Tensor& x) {
  const View& v = x.impl().view;
  if (v.meta.size() == 0 || dense(v)) return new_like({x})[0];
  const ByteRange range = byte_range(v);
  const Tensor memory = allocate(x.context(), make_meta(u8, Shape{range.end - range.begin}));
  View view = v;
  view.data = static_cast<std::byte*>(memory.data_ptr()) +
              (static_cast<const std::byte*>(v.data) - range.begin);
  return alias(memory, view);
}

Tensors new_like(const Tensors& tensors) {
  Tensors all;
  all.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    const TensorImpl& impl = t.impl();
    View view = impl.view;
    if (!impl.contiguous && !dense(view)) row_major(view.meta, view.stride);
    all.push_back(make_tensor(impl.context, view, current_stream(impl.context)));
  }
  return all;
}

void Copies::add(const Tensor& from, const Tensor& to) {
  const TensorImpl &a = from.impl(), &b = to.impl();
  if (same_place(a, b) || a.view.meta.size() == 0) return;
  if ((a.contiguous && b.contiguous) || (same_layout(a.view, b.view) && dense(a.view))) {
    pairs_.push_back({a.context, flat(a.view), flat(b.view), a.storage.get(), b.storage.get()});
    return;
  }
  const capture::RecordingPause aside;
  const autograd::Pause pause;
  if (repeats(b.view))
    once(from).copyto(once(to));
  else
    from.copyto(to);
}

void Copies::run() {
  const capture::RecordingPause aside;
  for (auto first = pairs_.begin(); first != pairs_.end();) {
    const auto end = std::stable_partition(
        first, pairs_.end(), [c = first->context](const Pair& p) { return p.context == c; });
    launch({first, end});
    first = end;
  }
}

void copy_all(const Tensors& from, const Tensors& to) {
  Copies copies(from.size());
  for (size_t i = 0; i < from.size(); ++i) copies.add(from[i], to[i]);
  copies.run();
}

// Pairs of one context, in one launch.
void Copies::launch(std::span<const Pair> pairs) {
  static const OpRef<NoAttrs> copy_several("copy_several");
  const Op& op = copy_several;
  const Context c = pairs[0].context;
  const DType dtype = pairs[0].from.meta.dtype;
  Device& d = device(c);
  const StreamView s = current_stream(c, d);
  const Kernel kernel = op.kernel(d.kernels(), dtype);
  if (!kernel) [[unlikely]]
    detail::no_kernel(op, {}, c, d.kernels(), dtype);
  std::vector<View> in, out;
  in.reserve(pairs.size());
  out.reserve(pairs.size());
  for (const Pair& p : pairs) {
    in.push_back(p.from);
    out.push_back(p.to);
    p.read->before_read(s);
    p.written->before_write(s);
  }
  if (s.id != 0) Timeline::of(s).before_launch();
  const auto n = static_cast<int>(pairs.size());
  const NoAttrs none;
  tracing::launch(d, kernel, {in.data(), out.data(), n, n, &none, sizeof none, s},
                  NamedCalls::name(op));
  if (detail::sync_each()) [[unlikely]]
    d.synchronize(s);
  for (const Pair& p : pairs) {
    p.read->after_read(s);
    p.written->after_write(s);
  }
}

}  // namespace locus::compiled
