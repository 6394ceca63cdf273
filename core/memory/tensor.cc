#include <locus/core/tensor.h>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/base/tracing.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/stream.h>

namespace locus {

TensorImpl& Tensor::impl() const {
  if (!impl_) [[unlikely]]
    detail::throw_empty("Tensor", "this");
  return *impl_;
}

Context Tensor::context() const { return impl().context; }
DType Tensor::dtype() const { return impl().view.meta.dtype; }
Shape Tensor::shape() const { return Shape(impl().view.meta); }
int Tensor::ndim() const { return impl().view.meta.rank; }
int64_t Tensor::size() const { return impl().view.meta.size(); }
bool Tensor::contiguous() const { return impl().contiguous; }
void* Tensor::data_ptr() const {
  if (capture::active()) [[unlikely]]
    capture::refuse_values("data_ptr");
  return impl().view.data;
}
std::vector<int64_t> Tensor::strides() const {
  const View& v = impl().view;
  return {v.stride, v.stride + v.meta.rank};
}
bool Tensor::shares_memory_with(const Tensor& other) const {
  return impl().storage == other.impl().storage;
}

Tensor make_tensor(Context c, View view, StreamView home) {
  const size_t bytes = bytes_of(view.meta);
  auto storage = capture::active() ? capture::allocate(c, bytes, home)
                                   : std::make_shared<Storage>(c, bytes, home);
  view.data = storage->data();
  return Tensor(std::make_shared<TensorImpl>(
      TensorImpl{view, c, view.contiguous(), std::move(storage), nullptr}));
}

Tensor allocate(Context c, const Meta& m) {
  View view{nullptr, m, {}};
  row_major(m, view.stride);
  return make_tensor(c, view, current_stream(c));
}

Tensor alias(const Tensor& of, const View& view) {
  const TensorImpl& base = of.impl();
  return Tensor(std::make_shared<TensorImpl>(
      TensorImpl{view, base.context, view.contiguous(), base.storage, nullptr}));
}

std::string describe(const Tensor& x) {
  if (!x.defined()) return "(empty)";
  return to_string(x.context()) + " " + to_string(x.shape()) + " " + name(x.dtype());
}

}  // namespace locus
