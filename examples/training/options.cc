#include "training/options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <CLI/CLI.hpp>

namespace training {

void add_options(CLI::App& app, Options& o, const std::string& data_help) {
  app.add_option("--context", o.context, "best, cpu(0), gpu(1), ...")->capture_default_str();
  app.add_option("--data", o.data, data_help);
  app.add_option("--epochs", o.epochs)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--batch-size", o.batch_size)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate at the start, after --warmup")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--schedule", o.schedule,
                 "of the learning rate: cosine (to zero), steps (a tenth after a half and after "
                 "three quarters of the run) or constant")
      ->check(CLI::IsMember({"cosine", "steps", "constant"}))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "steps in which the learning rate rises from 0 to --lr")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of weights, order and drawn data")->capture_default_str();
  app.add_flag("--compile", o.compile,
               "record the step once and replay it: the same numbers, on a GPU in less time");
  app.add_option("--out", o.out, "folder for history.csv and curves.svg");
  app.add_option("--save", o.save, "parameter file, written after every epoch");
  CLI::Option* const folder = app.add_option(
      "--checkpoint", o.checkpoint,
      "folder for checkpoints, written after every epoch and when SIGINT or SIGTERM ends the run");
  app.add_option("--checkpoint-every", o.checkpoint_every, "and every so many steps")
      ->check(CLI::PositiveNumber)
      ->needs(folder);
  app.add_option("--keep", o.keep, "how many checkpoints stay")
      ->check(CLI::PositiveNumber)
      ->needs(folder)
      ->capture_default_str();
  app.add_flag(
         "--resume", o.resume,
         "go on from the newest whole checkpoint there, to the same end as an undisturbed run")
      ->needs(folder);
}

void add_sgd(CLI::App& app, Options& o) {
  app.add_option("--momentum", o.momentum)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--wd", o.wd, "weight decay")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip", o.clip, "largest norm of the gradients, of all together; 0: any")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--dtype", o.dtype, "of products and convolutions: f32 or bf16 (mixed precision)")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
}

void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
}

std::string describe(const Options& o) {
  std::string text =
      fmt::format("{} schedule, batch {}, seed {}", o.schedule, o.batch_size, o.seed);
  if (o.warmup > 0) text += fmt::format(", warm-up of {} steps", o.warmup);
  if (o.wd > 0) text += fmt::format(", weight decay {}", o.wd);
  if (o.clip > 0) text += fmt::format(", gradients of norm {} at most", o.clip);
  if (o.dtype != "f32") text += ", " + o.dtype;
  return text + (o.compile ? ", compiled" : "");
}

locus::Context choose_context(const Options& o) {
  const locus::Context c =
      o.context == "best" ? locus::best_context() : locus::Context::parse(o.context);
  locus::context_info(c);
  return c;
}

void check_folder_of(const std::string& option, const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw std::runtime_error(
        fmt::format("{} {}: there is no folder {}", option, file, folder.string()));
}

void check_writable(const Options& o) {
  if (!o.out.empty()) std::filesystem::create_directories(o.out);
  if (!o.checkpoint.empty()) std::filesystem::create_directories(o.checkpoint);
  check_folder_of("--save", o.save);
}

locus::optim::Schedule make_schedule(const Options& o, int64_t steps) {
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
