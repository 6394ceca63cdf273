// Training steps (SGD with momentum) of LeNet (1 x 28 x 28, 10 classes) and torchvision's ResNet-18
// (3 x 32 x 32, 1000 classes), by batch, without waits. peers.py has the same steps.
//   hybridized, compiled   the network, the whole step is compiled
//   bf16                   the network is cast; norms and the optimizer's masters are f32
//   amp                    the network is f32; products and convolutions are bf16
//   tf32                   products and convolutions may use TF32
#include <locus/core/generator.h>
#include <locus/nn/train_step.h>
#include <locus/ops/matmul.h>

#include "tests/bench/bench.h"
#include "tests/bench/training.h"

namespace locus::bench {
namespace {

struct Network {
  const char* name;
  nn::Sequential (*make)();
  Shape image;
  int64_t classes;
};
const Network kLeNet{"lenet", training::lenet, {1, 28, 28}, 10};
const Network kResNet{"resnet18", [] { return training::resnet18(); }, {3, 32, 32}, 1000};

enum class Numbers : uint8_t { f32, tf32, bf16, amp };
constexpr const char* kNumbers[] = {"f32", "tf32", "bf16", "amp"};
enum class How : uint8_t { eager, hybridized, compiled };
constexpr const char* kHow[] = {"eager", "hybridized", "compiled"};

void add_steps(Context c, const Network& n, int64_t samples, Numbers numbers) {
  for (const How how : {How::eager, How::hybridized, How::compiled}) {
    const std::string name = std::string("networks/") + n.name + "/" + std::to_string(samples) +
                             "/" + kNumbers[static_cast<int>(numbers)] + "/" +
                             kHow[static_cast<int>(how)] + "/" + to_string(c);
    add_timed(name, [=](benchmark::State& state) {
      random::seed(1);
      set_matmul_precision(numbers == Numbers::tf32 ? Precision::tf32 : Precision::f32);
      std::vector<int64_t> images{samples};
      images.insert(images.end(), n.image.begin(), n.image.end());
      Training t(c, n.make(), Shape(images), n.classes, numbers == Numbers::bf16 ? bf16 : f32);
      if (numbers == Numbers::amp) t.mixed = bf16;
      if (how == How::hybridized) t.net.hybridize();
      nn::TrainStep compiled([&](const Tensor& x, const Tensor& y) { return t.step(x, y); },
                             *t.trainer);
      const double seconds =
          per_call(state, [&] { how == How::compiled ? compiled(t.image, t.label) : t.step(); });
      state.counters["images/s"] = static_cast<double>(samples) / seconds;
      set_matmul_precision(Precision::f32);
    });
  }
}

}  // namespace

void add_networks() {
  for (const Context c : contexts()) {
    const bool real = !is_host(c) && real_gpu();
    for (const int64_t samples : {64, 1024}) add_steps(c, kLeNet, samples, Numbers::f32);
    if (!real) {
      add_steps(c, kResNet, 8, Numbers::f32);
      continue;
    }
    for (const int64_t samples : {64, 256}) add_steps(c, kResNet, samples, Numbers::f32);
    for (const Numbers numbers : {Numbers::tf32, Numbers::bf16, Numbers::amp})
      add_steps(c, kResNet, 256, numbers);
  }
}

}  // namespace locus::bench
