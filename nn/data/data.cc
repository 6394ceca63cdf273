#include <locus/nn/data.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/block/sharded_tensor.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>

namespace locus::data {
Dataset::Dataset(Tensor data, Tensor label, Caller from) try
    : data_(std::move(data)), label_(std::move(label)) {
  if (data_.ndim() == 0 || label_.ndim() == 0 || data_.shape()[0] != label_.shape()[0])
    throw ShapeError("Dataset: data ", describe(data_), " and label ", describe(label_),
                     "; expected the same length of axis 0");
} catch (const Error&) {
  rethrow_at(from);
}

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options, Caller from) try
    : options_(options),
      order_("DataLoader", dataset.size(), options.batch_size, options.shuffle, options.last_batch,
             options.seed, {options.part_index, options.num_parts}) {
  const Context where = options.context ? *options.context : dataset.data().context();
  data_ = dataset.data().as_in_context(where, from);
  label_ = dataset.label().as_in_context(where, from);
} catch (const Error&) {
  rethrow_at(from);
}

DataLoader::Iterator DataLoader::begin(Caller from) try {
  const UserLine user_line(from);
  Iterator first;
  first.loader_ = this;
  first.epoch_ = order_.begin();
  first.order_ = array(first.epoch_->samples, {context(), i32}, from);
  first.position_ = first.epoch_->given * order_.part_size();
  first.from_ = from;
  return first;
} catch (const Error&) {
  rethrow_at(from);
}

void DataLoader::Iterator::expect_batch(const char* what) const {
  if (*this == std::default_sentinel) refuse_end("DataLoader", what, from_);
}

Batch DataLoader::Iterator::operator*() const try {
  const UserLine user_line(from_);
  expect_batch("*");
  const LoaderOptions& o = loader_->options_;
  const std::span<const int32_t> samples =
      std::span(epoch_->samples).subspan(static_cast<size_t>(position_));
  const auto n = std::min<size_t>(samples.size(), static_cast<size_t>(loader_->order_.part_size()));
  const Tensor ids = order_(Slice(position_, position_ + static_cast<int64_t>(n)));
  const Draw draw{o.seed, epoch_->number, samples.first(n), from_};
  Batch made{o.transform(loader_->data_.take(ids), draw), loader_->label_.take(ids)};
  epoch_->hand_out(batch());
  return made;
} catch (const Error&) {
  rethrow_at(from_);
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  expect_batch("++");
  epoch_->hand_out(batch());
  position_ += loader_->order_.part_size();
  return *this;
}

}  // namespace locus::data

namespace locus {

Tensors split_and_load(const Tensor& batch, const Contexts& contexts,
                       const SplitAndLoadOptions& options, Caller from) try {
  const UserLine user_line(from);
  const int axis = locus::detail::axis_of(batch, options.batch_axis, "split_and_load");
  const int64_t length = batch.shape()[axis], n = static_cast<int64_t>(contexts.size());
  const std::string what = text_of("split_and_load: data with shape ", batch.shape());
  if (length < n) throw ShapeError(what, ": too many slices, ", n, ", for axis ", axis);
  if (options.even_split && length % n != 0)
    throw ShapeError(what, " cannot be evenly split into ", n, " slices along axis ", axis,
                     ". Use a batch size that's multiple of ", n,
                     " or set even_split=false to allow uneven partitioning of data.");
  Tensors parts;
  int64_t begin = 0;
  for (const Context& c : contexts) {
    const int64_t end = nn::part_begin(length, contexts.size(), parts.size() + 1);
    parts.push_back(slice_axis(batch, axis, Slice(begin, end)).as_in_context(c, from));
    begin = end;
  }
  return parts;
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
