#include <locus/core/compile_copy.h>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/layout.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/core/stream.h>

namespace locus::compiled {
namespace {

// The elements in the order in which they lie in memory.
Tensor flat(const Tensor& t) {
  const View& v = t.impl().view;
  View view{v.data, {.dtype = v.meta.dtype, .rank = 1}, {1}};
  view.meta.shape[0] = v.meta.size();
  return alias(t, view);
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

void copy_all(const Tensors& from, const Tensors& to) {
  static const OpRef<NoAttrs> copy_several("copy_several");
  const capture::Aside aside;
  const autograd::Pause pause;
  Tensors sources, targets;
  for (size_t i = 0; i < from.size(); ++i) {
    const TensorImpl &a = from[i].impl(), &b = to[i].impl();
    if (same_place(a, b) || a.view.meta.size() == 0) continue;
    const bool row_major = a.contiguous && b.contiguous;
    if (row_major || (same_layout(a.view, b.view) && dense(a.view))) {
      sources.push_back(row_major ? from[i] : flat(from[i]));
      targets.push_back(row_major ? to[i] : flat(to[i]));
    } else if (repeats(b.view)) {
      once(from[i]).copyto(once(to[i]));
    } else {
      from[i].copyto(to[i]);
    }
  }
  std::vector<Ref> in, out;
  std::vector<bool> copied(sources.size());
  for (size_t first = 0; first < sources.size(); ++first) {
    if (copied[first]) continue;
    in.clear();
    out.clear();
    for (size_t i = first; i < sources.size(); ++i) {
      if (sources[i].context() != sources[first].context()) continue;
      in.emplace_back(sources[i]);
      out.emplace_back(targets[i]);
      copied[i] = true;
    }
    invoke_into(copy_several, std::span<const Ref>(in), std::span<const Ref>(out));
  }
}

}  // namespace locus::compiled
