#include <locus/core/tensor.h>

#include <locus/core/storage.h>
#include <locus/core/stream.h>

namespace locus {

TensorImpl& Tensor::impl() const {
  if (!impl_) [[unlikely]]
    throw Error("Tensor: empty (default-constructed or moved from); assign a tensor to it first");
  return *impl_;
}

Context Tensor::context() const { return impl().context; }
DType Tensor::dtype() const { return impl().view.meta.dtype; }
Shape Tensor::shape() const { return Shape(impl().view.meta); }
int Tensor::ndim() const { return impl().view.meta.rank; }
int64_t Tensor::size() const { return impl().view.meta.size(); }
bool Tensor::contiguous() const { return impl().contiguous; }
void* Tensor::data_ptr() const { return impl().view.data; }
std::vector<int64_t> Tensor::strides() const {
  const View& v = impl().view;
  return {v.stride, v.stride + v.meta.rank};
}
bool Tensor::shares_memory_with(const Tensor& other) const {
  return impl().storage == other.impl().storage;
}

Tensor allocate(Context c, const Meta& m) {
  Device& d = device(c);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(c, bytes_of(m), current_stream(c, d));
  impl->view.data = impl->storage->data();
  impl->view.meta = m;
  row_major(m, impl->view.stride);
  impl->context = c;
  return Tensor(std::move(impl));
}

Tensor alias(const Tensor& of, const View& view) {
  auto impl = std::make_shared<TensorImpl>();
  impl->view = view;
  impl->context = of.impl().context;
  impl->contiguous = view.contiguous();
  impl->storage = of.impl().storage;
  return Tensor(std::move(impl));
}

std::string describe(const Tensor& x) {
  if (!x.defined()) return "(empty)";
  return to_string(x.context()) + " " + to_string(x.shape()) + " " + name(x.dtype());
}

}  // namespace locus
