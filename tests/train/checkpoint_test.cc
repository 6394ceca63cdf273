// Checkpoints are loaded completely or not at all.
#include <locus/nn/checkpoint.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/checkpoint/checkpoint_part.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/schedule.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

nn::Sequential network(int64_t width = 3) {
  nn::Sequential net;
  net.add(nn::Dense(width, nn::relu, {.in_units = 2}), nn::Dense(1, {}, {.in_units = width}));
  return net;
}

std::vector<double> weights(const nn::Block& net) {
  std::vector<double> all;
  for (const auto& [name, p] : net.parameters())
    for (double v : test::values(p.data())) all.push_back(v);
  return all;
}

class Checkpoint : public testing::Test {
 protected:
  std::string folder() const { return folder_.string(); }
  fs::path at(int n) const { return folder_ / ("checkpoint-00000" + std::to_string(n)); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& e : fs::directory_iterator(folder_)) all.push_back(e.path().filename());
    std::ranges::sort(all);
    return all;
  }
  void flip_byte(const fs::path& path, std::streamoff where) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(where);
    const char c = static_cast<char>(file.get() ^ 1);
    file.seekp(where);
    file.put(c);
  }

  const test::Folder own_;
  const fs::path folder_ = own_ / "run";
};

TEST_F(Checkpoint, BringsBackNetworkNumbersAndRandomNumbers) {
  for (Context c : test::contexts()) {
    fs::remove_all(folder_);
    random::seed(3);
    nn::Sequential net = network();
    net.initialize(init::Xavier(), c);
    std::vector<double> losses{1, .5, NAN}, step{7};
    const checkpoint::Part progress("progress", {{"losses", &losses}, {"step", &step}});
    checkpoint::save(folder(), {net, progress});
    const std::vector<double> before = weights(net);
    const std::vector<double> drawn = test::values(random::uniform(0, 1, {5}, c));

    net.initialize(init::Zero(), c, {.force_reinit = true});
    losses.clear();
    step = {0, 0};
    random::seed(9);
    const auto loaded = checkpoint::load(folder(), {net, progress});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->path, at(1).string());
    EXPECT_EQ(weights(net), before) << c;
    EXPECT_EQ(losses.size(), 3u);
    EXPECT_EQ(losses[1], .5);
    EXPECT_EQ(step, std::vector<double>{7});
    EXPECT_EQ(test::values(random::uniform(0, 1, {5}, c)), drawn);
  }
}

// A run with dropout, running statistics, an optimizer with states and a schedule, and a shuffled
// loader with random transforms.
template <class Loader, class Options>
class Training {
 public:
  explicit Training(Context c) : loader_(set(), options(c)), trainer_(nullptr) {
    net_.add(nn::Dense(8, nn::relu), nn::BatchNorm(), nn::Dropout(.5), nn::Dense(3));
    random::seed(2);
    net_.initialize(init::Xavier(), c);
    trainer_ = std::make_unique<nn::Trainer>(net_.parameters(), optim::Adam());
    trainer_->set_schedule(optim::FactorScheduler({.step = 2, .factor = .9, .base_lr = .01}));
  }
  checkpoint::Parts parts() { return {net_, *trainer_, loader_}; }
  // Trains for `steps` more steps, over as many epochs as needed.
  std::vector<double> run(int steps) {
    std::vector<double> losses;
    while (steps > 0) {
      for (auto [x, y] : loader_) {
        Tensor l;
        {
          const autograd::Record record;
          l = nn::SoftmaxCrossEntropyLoss()(net_(x), y);
        }
        l.backward();
        trainer_->step(x.shape()[0]);
        for (double v : test::values(l)) losses.push_back(v);
        if (--steps == 0) break;
      }
    }
    for (double v : weights(net_)) losses.push_back(v);
    return losses;
  }

 private:
  static data::Dataset set() {
    std::vector<float> x(23 * 5);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 101) / 101;
    std::vector<int32_t> y(23);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
    return {array(x, {23, 5}), array(y)};
  }
  static Options options(Context c) {
    Options o;
    o.batch_size = 4;
    o.shuffle = true;
    o.context = c;
    o.seed = 6;
    return o;
  }

  nn::Sequential net_;
  Loader loader_;
  std::unique_ptr<nn::Trainer> trainer_;
};

template <class Loader, class Options>
void check_resumes(const std::string& folder, Context c) {
  using Run = Training<Loader, Options>;
  const auto tail = [](std::vector<double> all, size_t n) {
    return std::vector<double>(all.end() - static_cast<ptrdiff_t>(n), all.end());
  };
  const std::vector<double> whole = Run(c).run(13);
  for (int stop : {1, 5, 6, 7, 12}) {
    fs::remove_all(folder);
    Run first(c);
    first.run(stop);
    checkpoint::save(folder, first.parts());
    random::seed(77);
    Run second(c);
    ASSERT_TRUE(checkpoint::load(folder, second.parts()));
    const std::vector<double> rest = second.run(13 - stop);
    EXPECT_EQ(rest, tail(whole, rest.size())) << c << ", stopped after " << stop;
  }
}

TEST_F(Checkpoint, ARunThatStopsAndResumesEndsWithTheSameBits) {
  for (Context c : test::contexts()) {
    check_resumes<data::DataLoader, data::LoaderOptions>(folder(), c);
    check_resumes<data::Prefetcher, data::PrefetchOptions>(folder(), c);
  }
}

TEST_F(Checkpoint, AnotherOptimizerOrLoaderTouchesNothing) {
  nn::Sequential net = network();
  net.initialize(init::Constant(1), cpu());
  nn::Trainer adam(net.parameters(), optim::Adam()), sgd(net.parameters(), optim::SGD());
  const data::Dataset set(ones({8, 2}), zeros({8}));
  data::DataLoader loader(set, {.batch_size = 2}), other(set, {.batch_size = 4});
  checkpoint::save(folder(), {net, adam, loader});
  net.initialize(init::Constant(2), cpu(), {.force_reinit = true});
  EXPECT_THROW(checkpoint::load(folder(), {net, sgd, loader}), FormatError);
  EXPECT_THROW(checkpoint::load(folder(), {net, adam, other}), ValueError);
  EXPECT_EQ(weights(net)[0], 2);
}

TEST_F(Checkpoint, NothingIsLoadedWhereNothingIs) {
  nn::Sequential net = network();
  EXPECT_FALSE(checkpoint::load(folder(), {net}));
  fs::create_directories(folder_ / "checkpoint-x");
  EXPECT_FALSE(checkpoint::load(folder(), {net}));
}

TEST_F(Checkpoint, OneThatIsDamagedIsSkippedAndNamed) {
  nn::Sequential net = network();
  net.initialize(init::Constant(1), cpu());
  checkpoint::save(folder(), {net});
  const std::vector<double> first = weights(net);
  const auto damages = std::vector<std::function<void()>>{
      [&] { flip_byte(at(2) / "network.params", 100); },
      [&] { fs::resize_file(at(2) / "network.params", 50); },
      [&] { fs::remove(at(2) / "random.params"); },
      [&] { fs::remove(at(2) / "manifest.json"); },
      [&] { fs::resize_file(at(2) / "manifest.json", 20); },
      [&] { std::ofstream(at(2) / "manifest.json") << "{\"format\": \"another\"}"; },
      [&] {  // opens, but cannot be read
        fs::remove(at(2) / "manifest.json");
        fs::create_directory(at(2) / "manifest.json");
      },
  };
  for (const auto& damage : damages) {
    net.initialize(init::Constant(2), cpu(), {.force_reinit = true});
    fs::remove_all(at(2));
    checkpoint::save(folder(), {net});
    damage();
    const auto loaded = checkpoint::load(folder(), {net});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->path, at(1).string());
    ASSERT_EQ(loaded->skipped.size(), 1u);
    EXPECT_THAT(loaded->skipped[0], HasSubstr(at(2).string() + ": "));
    EXPECT_EQ(weights(net), first);
  }
  fs::remove(at(1) / "manifest.json");
  EXPECT_THAT(test::message_of<FormatError>([&] { checkpoint::load(folder(), {net}); }),
              HasSubstr("no checkpoint in " + folder() + " is whole"));
}

TEST_F(Checkpoint, OneOfAnotherModelTouchesNothing) {
  nn::Sequential other = network(4), net = network();
  other.initialize(init::Constant(5), cpu());
  net.initialize(init::Constant(1), cpu());
  std::vector<double> step{1}, nothing;
  const checkpoint::Part progress("progress", {{"step", &step}});
  checkpoint::save(folder(), {progress, other});
  const std::vector<double> before = weights(net);
  random::seed(4);
  const PhiloxKey key = random::state();
  step = {2};
  EXPECT_THROW(checkpoint::load(folder(), {progress, net}), ShapeError);
  const checkpoint::Part renamed("progress", {{"steps", &nothing}});
  EXPECT_THROW(checkpoint::load(folder(), {other, renamed}), FormatError);
  EXPECT_THAT(test::message_of<FormatError>([&] {
                checkpoint::load(folder(), {progress, checkpoint::Part(other).named("critic")});
              }),
              HasSubstr("has no part 'critic'; it has: network, progress, random"));
  EXPECT_EQ(weights(net), before);
  EXPECT_EQ(step, std::vector<double>{2});
  EXPECT_EQ(random::state().seed, key.seed);
  EXPECT_EQ(random::state().offset, key.offset);
}

TEST_F(Checkpoint, PartsHaveNamesOfTheirOwn) {
  nn::Sequential a = network(), b = network();
  a.initialize(init::Constant(1), cpu());
  b.initialize(init::Constant(2), cpu());
  EXPECT_THROW(checkpoint::save(folder(), {a, b}), ValueError);
  const checkpoint::Parts both{a, checkpoint::Part(b).named("critic")};
  checkpoint::save(folder(), both);
  a.initialize(init::Constant(3), cpu(), {.force_reinit = true});
  checkpoint::load(folder(), both);
  EXPECT_EQ(weights(a)[0], 1);
  EXPECT_THROW(checkpoint::Part(a).named("../up"), ValueError);
}

TEST_F(Checkpoint, ADiskThatIsFullLeavesTheOnesBefore) {
  nn::Sequential net;
  net.add(nn::Dense(100, {}, {.in_units = 100}));
  net.initialize();
  checkpoint::save(folder(), {net});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = test::message_of<Error>([&] { checkpoint::save(folder(), {net}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, HasSubstr("network.params"));
  EXPECT_THAT(text, HasSubstr("File too large"));
  EXPECT_THAT(names(), ElementsAre("checkpoint-000001"));
  EXPECT_TRUE(checkpoint::load(folder(), {net}));
  EXPECT_EQ(checkpoint::save(folder(), {net}), at(2).string());
}

TEST_F(Checkpoint, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_.string()) << "a file";
  nn::Sequential net = network();
  net.initialize();
  EXPECT_THROW(checkpoint::save(folder(), {net}), Error);
  EXPECT_THROW(checkpoint::load(folder(), {net}), Error);
  EXPECT_TRUE(fs::is_regular_file(folder_));
}

TEST_F(Checkpoint, StatesOfAnotherKindTouchNothingBeforeShapesAreKnown) {
  nn::Sequential net = network();
  net.initialize(init::Constant(1), cpu());
  nn::Trainer momentum(net.parameters(), optim::SGD({.momentum = .9}));
  checkpoint::save(folder(), {net, momentum});
  nn::Sequential fresh;
  fresh.add(nn::Dense(3, nn::relu), nn::Dense(1));
  fresh.initialize();
  nn::Trainer plain(fresh.parameters(), optim::SGD());
  EXPECT_THROW(checkpoint::load(folder(), {fresh, plain}), FormatError);
  EXPECT_TRUE(fresh.parameter("0.weight").deferred());
}

TEST_F(Checkpoint, StatesAreCheckedByTheNetworkBeforeShapesAreKnown) {
  const data::Dataset set(ones({8, 2}), ones({8}));
  const data::LoaderOptions shuffled{.batch_size = 2, .shuffle = true};
  const auto count = [](auto& loader) { return loader.state().position; };
  nn::Sequential net = network(), other = network(4);
  for (nn::Sequential* each : {&net, &other}) each->initialize(init::Constant(1), cpu());
  const auto save = [&](nn::Sequential& trained) {
    nn::Trainer trainer(trained.parameters(), optim::SGD({.momentum = .9}));
    {
      const autograd::Record record;
      trained(ones({1, 2})).sum().backward();
    }
    trainer.step(1);
    data::DataLoader loader(set, shuffled);
    for (const auto& batch : loader) {
      static_cast<void>(batch);
      break;
    }
    fs::remove_all(folder_);
    checkpoint::save(folder(), {net, trainer, loader});
    return trainer.states();
  };
  const auto load = [&](const auto& order) {
    nn::Sequential fresh;
    fresh.add(nn::Dense(3, nn::relu), nn::Dense(1));
    fresh.initialize();
    nn::Trainer trainer(fresh.parameters(), optim::SGD({.momentum = .9}));
    data::DataLoader loader(set, shuffled);
    const int64_t before = count(loader);
    try {
      checkpoint::load(folder(), order(fresh, trainer, loader));
    } catch (...) {
      EXPECT_TRUE(fresh.parameter("0.weight").deferred());
      EXPECT_EQ(count(loader), before);
      throw;
    }
    return trainer.states();
  };
  const auto trainer_first = [](auto& n, auto& t, auto& l) { return checkpoint::Parts{l, t, n}; };
  const auto network_first = [](auto& n, auto& t, auto& l) { return checkpoint::Parts{l, n, t}; };
  const auto without = [](auto&, auto& t, auto& l) { return checkpoint::Parts{l, t}; };
  const NamedTensors saved = save(net);
  for (const NamedTensors& loaded : {load(trainer_first), load(network_first)}) {
    ASSERT_EQ(loaded.size(), saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(loaded[i].first, saved[i].first);
      EXPECT_EQ(test::values(loaded[i].second), test::values(saved[i].second));
    }
  }
  EXPECT_THAT(test::message_of<Error>([&] { load(without); }),
              HasSubstr("expected its network among the parts"));
  save(other);
  EXPECT_THROW(load(trainer_first), ShapeError);
  EXPECT_THROW(load(network_first), ShapeError);
}

}  // namespace
}  // namespace locus
