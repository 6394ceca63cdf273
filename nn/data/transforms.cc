#include <locus/nn/transforms.h>

#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/nn/data/sample_order.h>
#include <locus/nn/options.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>

namespace locus::data {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) { return Mixer(Mixer(a).next() ^ b).next(); }

Shape image_shape(const char* who, const Tensor& data) {
  if (data.ndim() != 4)
    throw ShapeError(who, ": data ", describe(data), "; expected images (N, C, H, W)");
  return data.shape();
}

void check_size(const char* who, transforms::Size size) {
  const auto fits = [](int64_t n) { return n > 0 && n <= INT32_MAX; };
  options::expect(who, "size", text_of(size.height, " x ", size.width),
                  fits(size.height) && fits(size.width), "1 to 2^31 - 1 each");
}

void check_room(const char* who, const Tensor& data, transforms::Size size, int64_t pad) {
  const Shape shape = image_shape(who, data);
  if (shape[2] + 2 * pad < size.height || shape[3] + 2 * pad < size.width)
    throw ShapeError(who, ": data ", describe(data), " with ", pad,
                     " zeros around; expected images of at least ", size.height, " x ", size.width);
}

std::vector<double> draws(const char* who, const Tensor& data, const Draw& draw, uint64_t stream) {
  if (std::ssize(draw.samples) != data.shape()[0])
    throw ValueError(who, ": data ", describe(data), " and a draw for ", draw.samples.size(),
                     " samples; expected as many");
  return draw.uniform(stream);
}

// Sends the host's numbers without waiting.
template <class T>
Tensor sent(const std::vector<T>& numbers, const Shape& shape, TensorOptions to, Caller from) {
  if (is_host(*to.context)) return array(numbers, shape, to);
  const Tensor here = array(numbers, shape, {cpu_pinned(), to.dtype.value_or(dtype_of<T>())});
  return here.copyto(*to.context, {.blocking = false}, from);
}

// Offsets of each image's rows in memory and columns in a row; -1 outside.
Tensor places(const Tensor& data, transforms::Size size, int64_t pad, const Draw& draw) {
  const Shape shape = data.shape();
  std::vector<int64_t> at;
  const auto add = [&](double u, int64_t length, int64_t count, int64_t step, int64_t base) {
    const auto first = static_cast<int64_t>(u * static_cast<double>(length + 2 * pad - count + 1));
    for (int64_t i = first - pad; i < first - pad + count; ++i)
      at.push_back(i < 0 || i >= length ? -1 : base + i * step);
  };
  const std::vector<double> y = draws("RandomCrop", data, draw, 0),
                            x = draws("RandomCrop", data, draw, 1);
  for (size_t n = 0; n < y.size(); ++n) {
    add(y[n], shape[2], size.height, shape[3],
        static_cast<int64_t>(n) * shape[1] * shape[2] * shape[3]);
    add(x[n], shape[3], size.width, 1, 0);
  }
  return sent(at, {shape[0], 1, size.height + size.width}, data.context(), draw.from);
}

}  // namespace

std::vector<double> Draw::uniform(uint64_t stream) const {
  const uint64_t key = mixed(mixed(seed, static_cast<uint64_t>(epoch)), stream);
  std::vector<double> numbers;
  for (const int32_t sample : samples)
    numbers.push_back(static_cast<double>(mixed(key, static_cast<uint64_t>(sample)) >> 11) *
                      0x1p-53);
  return numbers;
}

Draw Draw::part(uint64_t i) const { return {mixed(seed, i), epoch, samples, from}; }

Transform::Transform(Apply apply) : apply_(std::move(apply)) {
  options::expect_function("Transform", "apply", apply_);
}

Tensor Transform::operator()(const Tensor& data, const Draw& draw) const {
  if (!apply_) return data;
  const autograd::Pause pause;
  Tensor made = apply_(data, draw);
  if (!made.defined() || made.ndim() == 0 || made.shape()[0] != data.shape()[0])
    throw ShapeError("Transform: made ", made.defined() ? describe(made) : "no tensor", " of data ",
                     describe(data), "; expected as many samples");
  return made;
}

namespace transforms {

Compose::Compose(std::vector<Transform> parts)
    : Transform([parts = std::move(parts)](Tensor data, const Draw& draw) {
        for (size_t i = 0; i < parts.size(); ++i) data = parts[i](data, draw.part(i));
        return data;
      }) {}

RandomCrop::RandomCrop(Size size, const RandomCropOptions& o)
    : Transform([size, pad = o.pad](const Tensor& data, const Draw& draw) {
        check_room("RandomCrop", data, size, pad);
        const Shape shape = data.shape();
        const auto crossed = [&](const Tensor& at) {  // (N, 1, h, 1) and (N, 1, 1, w)
          return std::pair(at(Slice(), Slice(), Slice(0, size.height), newaxis),
                           at(Slice(), Slice(), newaxis, Slice(size.height, std::nullopt)));
        };
        const Tensor at = places(data, size, pad, draw);
        const auto [rows, columns] = crossed(maximum(at, 0));
        const auto area = static_cast<double>(shape[2] * shape[3]);
        const Tensor channels =
            arange(0, static_cast<double>(shape[1]) * area, area, {data.context(), i64});
        const Tensor ids = rows + channels.reshape({shape[1], 1, 1}) + columns;
        const Tensor found = take(data.reshape({data.size()}), ids);
        if (pad == 0) return found;
        const auto [row_inside, column_inside] = crossed(at >= 0);
        return where(logical_and(row_inside, column_inside), found, 0);
      }) {
  check_size("RandomCrop", size);
  options::expect("RandomCrop", "pad", o.pad, o.pad >= 0 && o.pad <= INT32_MAX, "0 to 2^31 - 1");
}

CenterCrop::CenterCrop(Size size)
    : Transform([size](const Tensor& data, const Draw&) {
        check_room("CenterCrop", data, size, 0);
        const int64_t y = (data.shape()[2] - size.height) / 2,
                      x = (data.shape()[3] - size.width) / 2;
        return data(ellipsis, Slice(y, y + size.height), Slice(x, x + size.width));
      }) {
  check_size("CenterCrop", size);
}

RandomFlipLeftRight::RandomFlipLeftRight(double p)
    : Transform([p](const Tensor& data, const Draw& draw) {
        image_shape("RandomFlipLeftRight", data);
        std::vector<bool> mirrored;
        for (double u : draws("RandomFlipLeftRight", data, draw, 0)) mirrored.push_back(u < p);
        return where(sent(mirrored, {data.shape()[0], 1, 1, 1}, data.context(), draw.from),
                     flip(data, 3), data);
      }) {
  options::expect("RandomFlipLeftRight", "p", p, options::share);
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : Transform([mean, std](const Tensor& data, const Draw& draw) {
        const Shape shape = image_shape("Normalize", data);
        if (!is_floating(data.dtype()))
          throw DTypeError("Normalize: data ", describe(data),
                           "; expected a floating dtype: put ToTensor() before it");
        const auto of_channels = [&](const std::vector<double>& v) {
          if (v.size() != 1 && std::ssize(v) != shape[1])
            throw ShapeError("Normalize: ", v.size(), " numbers for data ", describe(data),
                             "; expected one, or one for each channel");
          return sent(v, {v.size(), 1, 1}, {data.context(), data.dtype()}, draw.from);
        };
        return (data - of_channels(mean)) / of_channels(std);
      }) {
  for (double m : mean) options::expect("Normalize", "mean", m, options::finite);
  for (double s : std)
    options::expect("Normalize", "std", s, s != 0 && std::isfinite(s), "a finite number, not 0");
}

ToTensor::ToTensor()
    : Transform([](const Tensor& data, const Draw&) {
        if (data.dtype() != u8)
          throw DTypeError("ToTensor: data ", describe(data), "; expected dtype u8");
        return cast(data, f32) / 255;
      }) {}

Cast::Cast(DType dtype)
    : Transform([dtype](const Tensor& data, const Draw&) { return cast(data, dtype); }) {}

}  // namespace transforms
}  // namespace locus::data
