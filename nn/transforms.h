// Transforms change samples before they enter a batch.
//
//   using namespace data::transforms;
//   data::DataLoader loader(data::cifar10(dir, data::train, {.dtype = u8}),
//                           {.batch_size = 128, .shuffle = true, .context = gpu(0),
//                            .transform = Compose({RandomCrop(32, {.pad = 4}),
//                                                  RandomFlipLeftRight(), ToTensor()})});
//
// A DataLoader transforms batches, on the batch's context. A Prefetcher transforms samples, in its
// workers. Both give the same bits: a random transform of a sample depends only on the loader's
// seed, the epoch's number and the sample's number. Images are (N, C, H, W), of any dtype,
// otherwise ShapeError. Names are Gluon's; Gluon's images are (H, W, C) until ToTensor moves the
// channels.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::data {

// The source of random transforms' numbers.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
  std::span<const int32_t> samples = {};  // the numbers of data's samples
  Caller from = Caller::here();           // the line that reports name for copies

  // One number in [0, 1) per sample. Each `stream` gives different numbers.
  std::vector<double> uniform(uint64_t stream) const;
  // The Draw for part i of a transform. Each part has different numbers.
  Draw part(uint64_t i) const;
};

// A function of data (N, ...). The result has N entries and is on the data's context. A Transform
// is a value: all state is in the base class, so copies never slice. Several threads may call a
// Transform at once.
class Transform {
 public:
  using Apply = std::function<Tensor(const Tensor& data, const Draw& draw)>;
  Transform() = default;            // returns data unchanged
  explicit Transform(Apply apply);  // ValueError if empty

  explicit operator bool() const { return apply_ != nullptr; }
  // Autograd records nothing. ValueError if a random transform gets a draw for another number of
  // samples. ShapeError if the result has another number of samples.
  Tensor operator()(const Tensor& data, const Draw& draw = {}) const;

 private:
  Apply apply_;
};

namespace transforms {

struct Size {
  Size(int64_t side) : height(side), width(side) {}
  Size(int64_t h, int64_t w) : height(h), width(w) {}
  int64_t height, width;
};

// Applies the parts in order.
struct Compose : Transform {
  explicit Compose(std::vector<Transform> parts);
};

struct RandomCropOptions {
  int64_t pad = 0;  // zeros added around the image first
};
// Cuts this size at a random position of each image. ShapeError if the padded image is smaller.
struct RandomCrop : Transform {
  explicit RandomCrop(Size size, const RandomCropOptions& options = {});
};
// The middle of each image, as a view. ShapeError if an image is smaller.
struct CenterCrop : Transform {
  explicit CenterCrop(Size size);
};
// Mirrors each image with probability p.
struct RandomFlipLeftRight : Transform {
  explicit RandomFlipLeftRight(double p = .5);
};

// (x - mean) / std for floating data, with one number for all channels or one per channel.
struct Normalize : Transform {
  explicit Normalize(std::vector<double> mean, std::vector<double> std = {1});
};
// Converts u8 to f32 in [0, 1].
struct ToTensor : Transform {
  ToTensor();
};
struct Cast : Transform {
  explicit Cast(DType dtype = f32);
};

}  // namespace transforms
}  // namespace locus::data
