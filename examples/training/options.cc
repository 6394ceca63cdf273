#include "training/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/core/base/text.h>
#include <locus/core/cluster.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <CLI/CLI.hpp>

#include "common/command.h"
#include "common/measure.h"

namespace training {

using namespace examples;

namespace {

CLI::Validator seed() {
  return {[](const std::string& text) {
            return locus::number_in<uint64_t>(text)
                       ? ""
                       : "expected a whole number from 0 to 2^64 - 1, got \"" + text + "\"";
          },
          "from 0 to 2^64 - 1"};
}

}  // namespace

void add_options(CLI::App& app, Options& o, const std::string& data_help) {
  app.add_option("--context", o.context,
                 "where to train: cpu(0), gpu(1), ..., or best: gpu(0), and cpu(0) without a GPU")
      ->capture_default_str();
  app.add_option("--data", o.data, data_help);
  app.add_option("--epochs", o.epochs, "passes over the training images")
      ->check(whole(1, 100000))
      ->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "images of a step")
      ->check(whole(1, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate at the start, after --warmup")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option(
         "--schedule", o.schedule,
         "schedule of the learning rate: cosine (to zero), steps (a tenth after a half and after "
         "three quarters of the run) or constant")
      ->check(one_of({"cosine", "steps", "constant"}))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "steps in which the learning rate rises from 0 to --lr")
      ->check(whole(0))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the random numbers for weights, order and drawn data")
      ->check(seed())
      ->capture_default_str();
  app.add_flag("--compile", o.compile,
               "record the step once and replay it: the same numbers, faster on a GPU");
  app.add_option("--out", o.out, "folder for history.csv and curves.svg (default: no files)");
  app.add_option("--save", o.save, "parameter file, written after every epoch (default: none)");
  CLI::Option* const folder =
      app.add_option("--checkpoint", o.checkpoint,
                     "folder for checkpoints, written after every epoch and when SIGINT or SIGTERM "
                     "ends the run (default: none)");
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "also write one after every N steps (default: only after epochs)")
      ->check(whole(1))
      ->needs(folder);
  app.add_option("--keep", o.keep, "how many of the newest checkpoints to keep")
      ->check(whole(1, 1 << 20))
      ->needs(folder)
      ->capture_default_str();
  app.add_flag(
         "--resume", o.resume,
         "continue from the newest complete checkpoint, with the result of an uninterrupted run")
      ->needs(folder);
}

void add_sgd(CLI::App& app, Options& o) {
  app.add_option("--momentum", o.momentum, "momentum of SGD")
      ->check(number(0, 1))
      ->capture_default_str();
  app.add_option("--wd", o.wd, "weight decay of SGD")->check(number(0))->capture_default_str();
  app.add_option("--clip", o.clip, "largest norm of all gradients together; 0: no limit")
      ->check(number(0))
      ->capture_default_str();
  app.add_option("--dtype", o.dtype,
                 "dtype of products and convolutions: f32 or bf16 (mixed precision)")
      ->check(one_of({"f32", "bf16"}))
      ->capture_default_str();
  CLI::Option* const plan = app.add_option(
      "--plan", o.plan,
      "a file that places layers on contexts, written by placement --write-plan; it replaces "
      "--context, and --batch-size is the total");
  plan->excludes(app.get_option("--context"));
  app.add_flag(
         "--distributed", o.distributed,
         "train with the other ranks that mpirun or srun started; --batch-size is the total, each "
         "rank has its own GPU, and the first rank prints and writes files")
      ->excludes(plan);
}

void parse(CLI::App& app, int argc, char** argv) {
  if (const std::optional<int> status = examples::parse(app, argc, argv)) std::exit(*status);
}

std::string describe(const Options& o) {
  std::string text =
      fmt::format("{} schedule, batch {}, seed {}", o.schedule, o.batch_size, o.seed);
  if (o.warmup > 0) text += fmt::format(", warm-up of {} steps", o.warmup);
  if (o.wd > 0) text += fmt::format(", weight decay {}", o.wd);
  if (o.clip > 0) text += fmt::format(", gradients of norm {} at most", o.clip);
  if (o.dtype != "f32") text += ", " + o.dtype;
  if (locus::cluster::size() > 1) text += fmt::format(", {} ranks", locus::cluster::size());
  return text + (o.compile ? ", compiled" : "");
}

void join(const Options& o) {
  if (const int n = locus::cluster::launched(); n > 1 && !o.distributed)
    throw locus::Error("mpirun or srun started ", n,
                       " of these, and each would train alone and replace the others' files; "
                       "expected --distributed, or one process");
  if (!o.distributed) return;
  locus::cluster::init();
  if (locus::cluster::rank() > 0 && !std::freopen("/dev/null", "w", stdout))
    throw std::runtime_error("--distributed: /dev/null cannot be written");
}

locus::Context choose_context(const Options& o) {
  if (o.context == "best" && locus::cluster::size() > 1) return locus::cluster::contexts()[0];
  locus::Context c;
  locus::cluster::together([&] {
    c = o.context == "best" ? locus::best_context() : context_of("--context", o.context);
    if (locus::cluster::local_size() > 1 && !is_host(c))
      throw locus::Error("--context ", c, ": with --distributed each rank has a GPU of its own; ",
                         "expected best, or a context of the CPU");
  });
  return c;
}

namespace {

void check_writes(const std::string& option, const std::string& value, const std::string& file) {
  const std::string probe = file + ".probe";
  try {
    examples::write_file(probe, "");
  } catch (const std::exception& e) {
    throw std::runtime_error(fmt::format("{} {}: {}", option, value, e.what()));
  }
  std::filesystem::remove(probe);
}

}  // namespace

void check_folder_of(const std::string& option, const std::string& file) {
  if (file.empty()) return;
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw std::runtime_error(
        fmt::format("{} {}: there is no folder {}", option, file, folder.string()));
  if (std::filesystem::is_directory(file))
    throw std::runtime_error(fmt::format("{} {}: it is a folder; expected a file", option, file));
  check_writes(option, file, file);
}

void check_writable(const Options& o) {
  locus::cluster::on_root([&] {
    if (!o.out.empty()) check_folder("--out", o.out);
    if (!o.checkpoint.empty()) check_folder("--checkpoint", o.checkpoint);
    if (std::filesystem::exists(o.checkpoint) && !o.resume)
      for (const auto& entry : std::filesystem::directory_iterator(o.checkpoint))
        if (entry.path().filename().string().starts_with("checkpoint-"))
          throw std::runtime_error(
              fmt::format("--checkpoint {}: it holds checkpoints of an earlier run, which this one "
                          "would replace; continue with --resume, or name another folder",
                          o.checkpoint));
    check_folder_of("--save", o.save);
  });
}

locus::optim::LRScheduler make_schedule(const Options& o, int64_t steps) {
  namespace optim = locus::optim;
  if (o.schedule != "constant" && o.warmup >= steps)
    throw locus::ValueError("--warmup ", o.warmup, ": expected less than the run's ", steps,
                            " steps");
  if (o.schedule == "cosine")
    return optim::CosineScheduler({.max_update = steps, .base_lr = o.lr, .warmup_steps = o.warmup});
  if (o.schedule == "steps")
    return optim::MultiFactorScheduler(
        {.step = {std::max<int64_t>(1, steps / 2), std::max<int64_t>(2, 3 * steps / 4)},
         .factor = .1,
         .base_lr = o.lr,
         .warmup_steps = o.warmup});
  return optim::ConstantScheduler({.base_lr = o.lr, .warmup_steps = o.warmup});
}

}  // namespace training
