// Data sets, and the DataLoader that makes batches of them.
//
//   data::DataLoader loader(data::mnist(dir, data::train), {.batch_size = 64, .shuffle = true});
//   for (auto [image, label] : loader) { ... }
//
// A loader must outlive its iterators. One thread at a time may use a loader with its iterators.
//
// A bad file (truncated, wrong format or checksum, counts that differ, a label above 9) throws
// FormatError with file, value and expectation. A file that cannot be opened throws Error. Bytes
// after the end of gzip data are ignored, as gzip does.
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

// Two tensors: sample i is row i, along axis 0, of both.
class Dataset {
 public:
  // ShapeError if the lengths differ or a tensor has no axes.
  Dataset(Tensor data, Tensor label, Caller = Caller::here());
  int64_t size() const { return data_.shape()[0]; }
  const Tensor& data() const { return data_; }
  const Tensor& label() const { return label_; }

 private:
  Tensor data_, label_;
};
using ArrayDataset = Dataset;  // Gluon's name

// Reads an IDX file, plain or gzipped, to cpu(0): u8, i8, i32, f32 or f64, in the file's shape.
Tensor read_idx(const std::string& path, Caller = Caller::here());

enum class Split : uint8_t { train, test };
using enum Split;
struct MnistOptions {
  Shape shape = {784};  // of an image; {1, 28, 28} for convolutions; 784 elements or ShapeError
};
// Reads MNIST from a directory with its four files under their original names, with or without
// ".gz". Images (N, 784) are f32 in [0, 1]; labels (N,) are i32 in 0...9; both are on cpu(0).
Dataset mnist(const std::string& directory, Split split, const MnistOptions& = {},
              Caller = Caller::here());
// Reads Fashion-MNIST. Its files have MNIST's names and format.
Dataset fashion_mnist(const std::string& directory, Split split, const MnistOptions& = {},
                      Caller = Caller::here());

struct Cifar10Options {
  DType dtype = f32;  // or u8: 0...255, a quarter of the memory; transforms::ToTensor converts it
};
// Reads CIFAR-10 from a directory with its binary files: data_batch_1.bin ... data_batch_5.bin and
// test_batch.bin, each with at least one whole record. Images (N, 3, 32, 32) are in [0, 1]; labels
// (N,) are i32 in 0...9; both are on cpu(0).
Dataset cifar10(const std::string& directory, Split split, const Cifar10Options& = {},
                Caller = Caller::here());

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  // Samples that do not fill a batch form a smaller batch (keep), are dropped (discard), or start
  // the next epoch (rollover).
  LastBatch last_batch = LastBatch::keep;
  std::optional<Context> context = {};  // unset: that of the set's data
  uint64_t seed = 0;         // for shuffling and transform; same results on every context
  Transform transform = {};  // applied to each batch's data
  // Several loaders may share each batch, such as one per rank (core/cluster.h). Each gives one of
  // num_parts disjoint, equal parts; together they are the batches of one loader. batch_size counts
  // all parts. ValueError if a batch, even the last, does not divide evenly.
  int num_parts = 1, part_index = 0;
};

struct Batch {  // exactly two members: auto [image, label]
  Tensor data, label;
};

// Makes batches of new tensors on one context. The constructor copies the set to that context once,
// and batches are gathered there. An epoch copies only its order and the random transforms'
// numbers. OutOfMemory if the set does not fit. Without a context in the options, the loader uses
// the context of the set's data; a Prefetcher uses current_context().
//
// Each begin() starts an epoch with its own order. After set_state(state), the next begin()
// continues at that state, in the middle of the epoch. The state may come from another loader with
// the same options.
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
  // Starts an epoch. Its copies are reported under the caller's line.
  Iterator begin(Caller = Caller::here());
  std::default_sentinel_t end() const { return {}; }

  int64_t size() const { return order_.batches(); }  // of the next epoch
  // The position of the next batch: *i and ++i hand out a batch. After an epoch's last batch: the
  // next epoch's first.
  LoaderState state() const { return order_.state(); }
  // ValueError, without any change, for a state of another set size or other options.
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
  bool even_split = true;  // false: the first slices may be longer by one
};
// Cuts a batch into one slice per context and moves each slice to its context. ShapeError if there
// are too few rows, or if even_split is set and the rows do not divide evenly.
Tensors split_and_load(const Tensor& batch, const Contexts& contexts,
                       const SplitAndLoadOptions& = {}, Caller = Caller::here());

}  // namespace locus
