// Data sets and batches.
//
// IDX files (MNIST's) are read plain or gzipped. Whatever is wrong with a set's file (truncated,
// foreign, a bad checksum, counts that do not match, a label that is no digit) is a FormatError
// naming file, value and what was expected; one that cannot be opened is an Error. Only what
// follows the end of gzip data is ignored, as gzip does.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include <locus/core/tensor.h>
#include <locus/nn/data/sample_order.h>
#include <locus/nn/transforms.h>

namespace locus::data {

// Samples along axis 0 of two tensors.
class Dataset {
 public:
  // Throws ShapeError when the lengths differ or a tensor has no axis.
  Dataset(Tensor data, Tensor label, Caller = Caller::here());
  int64_t size() const { return data_.shape()[0]; }
  const Tensor& data() const { return data_; }
  const Tensor& label() const { return label_; }

 private:
  Tensor data_, label_;
};
using ArrayDataset = Dataset;  // Gluon's name

// One IDX file (plain or gzipped) on cpu(0): u8, i8, i32, f32 or f64, in its own shape.
Tensor read_idx(const std::string& path, Caller = Caller::here());

enum class Split : uint8_t { train, test };
using enum Split;
struct MnistOptions {
  Shape shape = {784};  // of an image, {1, 28, 28} for convolutions; ShapeError unless of 784
};
// MNIST from a directory with its four files under their original names, with or without ".gz":
// images (N, 784) f32 in [0, 1], labels (N,) i32 in 0...9, both on cpu(0).
Dataset mnist(const std::string& directory, Split split, const MnistOptions& = {},
              Caller = Caller::here());
// Fashion-MNIST, whose files have MNIST's names and format.
Dataset fashion_mnist(const std::string& directory, Split split, const MnistOptions& = {},
                      Caller = Caller::here());

struct Cifar10Options {
  DType dtype = f32;  // or u8: 0...255, a quarter of the memory; transforms::ToTensor makes it f32
};
// CIFAR-10 from a directory with its binary files, data_batch_1.bin ... data_batch_5.bin and
// test_batch.bin, of any number of whole records: images (N, 3, 32, 32) in [0, 1], labels (N,) i32
// in 0...9, both on cpu(0).
Dataset cifar10(const std::string& directory, Split split, const Cifar10Options& = {},
                Caller = Caller::here());

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  // What becomes of samples that do not fill a batch: a smaller batch, nothing, or the start of the
  // next epoch.
  LastBatch last_batch = LastBatch::keep;
  std::optional<Context> context = {};  // unset: where the set's data is
  uint64_t seed = 0;         // of the shuffling and the transform: the same on every context
  Transform transform = {};  // of each batch's data
  // Loaders that share each batch, equally, such as one a rank (core/cluster.h): batch_size is that
  // of all parts together, which are disjoint, and make up the batches of one loader without parts.
  // ValueError where a batch, the last one too, has not the same number of samples for each.
  int num_parts = 1, part_index = 0;
};

struct Batch {  // exactly two members: auto [image, label]
  Tensor data, label;
};

// Batches of new tensors on one context. The whole set is brought there once, when the loader is
// made, and rows are gathered there: an epoch moves its order and what random transforms draw, not
// its samples. Each begin() starts an epoch with an order of its own. Throws OutOfMemory when the
// set does not fit. state() is of the batches that loops were given; the next begin() after
// set_state(state), of this loader or of another one with its options, goes on from there in the
// middle of the epoch. Where no context is named, batches are made where the set's data is, so that
// it need not move; a Prefetcher's samples come from the host, and its batches go to
// current_context().
class DataLoader {
 public:
  explicit DataLoader(const Dataset& dataset, const LoaderOptions& options = {},
                      Caller = Caller::here());

  class Iterator {
   public:
    Batch operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& i, std::default_sentinel_t) {
      return !i.epoch_ || i.position_ >= std::ssize(i.epoch_->samples);
    }

   private:
    friend class DataLoader;
    void expect_batch(const char* what) const;
    int64_t batch() const { return position_ / loader_->order_.part_size(); }

    const DataLoader* loader_ = nullptr;
    std::shared_ptr<EpochOrder> epoch_;
    Tensor order_;  // of the whole epoch, on the loader's context
    int64_t position_ = 0;
    Caller from_;
  };
  // Copies of this epoch are put down to this line.
  Iterator begin(Caller = Caller::here());
  std::default_sentinel_t end() const { return {}; }

  int64_t size() const { return order_.batches(); }  // in the next epoch
  // The batch that a loop gets next: *i and ++i give one out. After a loop's last batch it is the
  // next epoch's first.
  LoaderState state() const { return order_.state(); }
  // ValueError, and nothing changes, for a state of another set's size or of other options.
  void check_state(const LoaderState& state) const { order_.check_state(state); }
  void set_state(const LoaderState& state) { order_.set_state(state); }
  Context context() const { return data_.context(); }
  const LoaderOptions& options() const { return options_; }

 private:
  Tensor data_, label_;
  LoaderOptions options_;
  SampleOrder order_;
};

}  // namespace locus::data

namespace locus {

struct SplitAndLoadOptions {
  int batch_axis = 0;
  bool even_split = true;  // false: the first slices may be one longer
};
// A batch cut into one slice a context. Throws ShapeError when it cannot be cut (evenly).
Tensors split_and_load(const Tensor& batch, const Contexts& contexts,
                       const SplitAndLoadOptions& = {}, Caller = Caller::here());

}  // namespace locus
