// Transforms: what becomes of samples on their way into a batch.
//
//   using namespace data::transforms;
//   data::DataLoader loader(data::cifar10(dir, data::train, {.dtype = u8}),
//                           {.batch_size = 128, .shuffle = true, .context = gpu(0),
//                            .transform = Compose({RandomCrop(32, {.pad = 4}),
//                                                  RandomFlipLeftRight(), ToTensor()})});
//
// A DataLoader applies them to batches, on the batch's context; a Prefetcher to samples, in its
// workers. Both give the same bits: what a random transform does to a sample depends on the
// loader's seed, the epoch's number and the sample's number alone. Images are (N, C, H, W), of any
// dtype, else ShapeError. Gluon's names; Gluon's images are (H, W, C) until ToTensor moves the
// channels.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::data {

// Where random transforms get their numbers from.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
  std::span<const int32_t> samples = {};  // which the data are
  Caller from = Caller::here();           // whom its copies to the context are put down to

  // For each sample a number in [0, 1); another `stream` gives others.
  std::vector<double> uniform(uint64_t stream) const;
  // For a part of a transform: other numbers than those of the parts before.
  Draw part(uint64_t i) const;
};

// A function of data (N, ...); the result has N entries, too, and is on the data's context. A value
// type: everything is in the base, so a copy never slices. Called from several threads at once.
class Transform {
 public:
  using Apply = std::function<Tensor(const Tensor& data, const Draw& draw)>;
  Transform() = default;            // none: data as it is
  explicit Transform(Apply apply);  // ValueError for an empty one

  explicit operator bool() const { return apply_ != nullptr; }
  // Records nothing. Random ones need a draw with as many samples as data has, else ValueError.
  // ShapeError where the result has another number of samples.
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

// One after the other.
struct Compose : Transform {
  explicit Compose(std::vector<Transform> parts);
};

struct RandomCropOptions {
  int64_t pad = 0;  // zeros around the image, before it is cut
};
// A part of this size, from anywhere in each image. ShapeError when an image is smaller.
struct RandomCrop : Transform {
  explicit RandomCrop(Size size, const RandomCropOptions& options = {});
};
// The middle of each image: a view. ShapeError when an image is smaller.
struct CenterCrop : Transform {
  explicit CenterCrop(Size size);
};
// Mirrors an image with probability p.
struct RandomFlipLeftRight : Transform {
  explicit RandomFlipLeftRight(double p = .5);
};

// (x - mean) / std for floating data: one number for all channels or one for each.
struct Normalize : Transform {
  explicit Normalize(std::vector<double> mean, std::vector<double> std = {1});
};
// u8 to f32 in [0, 1].
struct ToTensor : Transform {
  ToTensor();
};
struct Cast : Transform {
  explicit Cast(DType dtype = f32);
};

}  // namespace transforms
}  // namespace locus::data
