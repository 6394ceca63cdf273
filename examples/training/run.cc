#include "training/run.h"

#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <locus/core/cluster.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>

#include "common/measure.h"
#include "training/progress.h"
#include "training/stop.h"

namespace training {
namespace {

using namespace locus;

int64_t batches(int64_t samples, int64_t size) { return (samples + size - 1) / size; }

class Session {
 public:
  Session(const Run& run, const Options& options)
      : run_(run),
        options_(options),
        steps_(batches(run.samples, options.batch_size)),
        history_{run.network, run.data, run.where, {}, {}},
        progress_(options.epochs, run.samples),
        curve_(steps_, options.epochs) {
    run.trainer.set_schedule(make_schedule(options, steps_ * options.epochs));
  }

  int train() {
    const int status = train_on();
    cluster::barrier();  // no rank exits before the others have printed
    return status;
  }

 private:
  int train_on() {
    if (options_.resume) resume();
    const StopRequest stop;
    try {
      for (; epoch_ <= options_.epochs; ++epoch_) {
        const bool within =
            std::visit([&](auto* loader) { return train_epoch(*loader, stop); }, run_.loader);
        if (within || (stop_ != 0 && epoch_ < options_.epochs)) return stopped(stop_);
      }
    } catch (const Diverged& d) {
      diverged(d);
      return 1;
    }
    history_.losses = curve_.points();
    fmt::print("\n{}\n", table(history_));
    if (!options_.save.empty()) fmt::print("saved the parameters in {}\n", options_.save);
    write_results(!options_.out.empty() ? run_.strip : nullptr);
    return 0;
  }

  static bool is_root() { return cluster::rank() == 0; }

  // Returns true if a signal ended the run within the epoch.
  bool train_epoch(auto& loader, const StopRequest& stop) {
    progress_.start(epoch_, seconds_before_);
    for (auto [data, label] : loader) {
      losses_.add(run_.step(data, label));
      ++step_;
      samples_ += data.shape()[0] * cluster::size();
      if (run_.after) run_.after(step_);
      if (losses_.due()) report();
      if (step_ % steps_ == 0) continue;  // finish_epoch() writes the checkpoint
      const bool due = options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0;
      if (cluster::size() == 1 || step_ % kListens == 0) listen(stop);
      const bool ends = stop_ != 0;
      if (due || ends) checkpoint();
      if (ends) return true;
    }
    if (!losses_.empty()) report();
    finish_epoch();
    listen(stop);
    return false;
  }

  // A signal to one rank stops all. Ranks exchange signals every kListens steps.
  static constexpr int64_t kListens = 10;
  void listen(const StopRequest& stop) {
    stop_ = static_cast<int>(cluster::all_reduce(stop.signal(), ReduceOp::max));
  }

  void report() {
    curve_.add(losses_.read());
    progress_.show(samples_, losses_.mean());
  }

  void finish_epoch() {
    const double seconds = progress_.seconds(), rate = static_cast<double>(run_.samples) / seconds;
    Score score = run_.evaluate();
    score.loss = cluster::all_reduce(score.loss, ReduceOp::max);  // all ranks continue, or none
    if (!std::isfinite(score.loss)) throw Diverged{step_, score.loss};
    history_.epochs.push_back({epoch_, step_, losses_.mean(), score.loss, score.accuracy,
                               run_.trainer.learning_rate(), seconds, rate});
    const std::string quality = std::isnan(score.accuracy)
                                    ? fmt::format("test loss {:.4f}", score.loss)
                                    : fmt::format("test accuracy {:.2f} %", 100 * score.accuracy);
    progress_.finish(fmt::format("epoch {}/{}  loss {:.4f}  {}  {:.0f} samples/s  {:.2f} s", epoch_,
                                 options_.epochs, losses_.mean(), quality, rate, seconds));
    losses_.reset();
    samples_ = 0;
    seconds_before_ = 0;
    const std::exception_ptr unsaved = save();
    ++epoch_;  // a resumed run begins with the next epoch
    checkpoint();
    --epoch_;
    if (unsaved && epoch_ == options_.epochs) std::rethrow_exception(unsaved);
  }

  // Returns the error. Training continues: a later epoch or a checkpoint may succeed.
  std::exception_ptr save() {
    if (options_.save.empty()) return nullptr;
    try {
      cluster::on_root([&] { run_.net.save_parameters(options_.save); });
      saved_epoch_ = epoch_;
      return nullptr;
    } catch (const Error& e) {
      if (epoch_ < options_.epochs && is_root())
        std::cerr << fmt::format("{}: {}; training continues\n", run_.program, e.what());
      return std::current_exception();
    }
  }

  // The position in the run, as numbers. All losses must have been read.
  checkpoint::Part progress_part() {
    return {"progress",
            [this] {
              const auto vector = [](const std::vector<double>& v) {
                return array(v, {cpu(), f64});
              };
              return NamedTensors{
                  {"position", vector({static_cast<double>(epoch_), static_cast<double>(step_),
                                       static_cast<double>(samples_), progress_.seconds()})},
                  {"losses", vector(losses_.state())},
                  {"curve", vector(curve_.state())},
                  {"epochs", vector(state_of(history_.epochs))},
                  {"options", vector(numbers())}};
            },
            [this](const NamedTensors& state, const std::string& file) -> std::function<void()> {
              std::vector<std::vector<double>> v;
              for (const auto& [name, tensor] : state) v.push_back(tensor.to_vector<double>());
              if (v.size() != 5 || v[0].size() != 4 || v[1].size() != 3 || v[2].size() < 2)
                throw FormatError(file, " is not the progress of a training program");
              check_numbers(v[4], file);
              return [this, v] {
                epoch_ = static_cast<int>(v[0][0]);
                step_ = static_cast<int64_t>(v[0][1]);
                samples_ = static_cast<int64_t>(v[0][2]);
                seconds_before_ = samples_ > 0 ? v[0][3] : 0;
                losses_.set_state(v[1]);
                curve_.set_state(v[2]);
                history_.epochs = epochs_of(v[3]);
              };
            }};
  }

  // Options that a resumed run must share with the run before.
  static constexpr const char* kNames[] = {"--batch-size", "--lr",       "--momentum",
                                           "--wd",         "--clip",     "--seed",
                                           "--warmup",     "--schedule", "--dtype"};
  std::vector<double> numbers() const {
    const Options& o = options_;
    return {static_cast<double>(o.batch_size),
            o.lr,
            o.momentum,
            o.wd,
            o.clip,
            static_cast<double>(o.seed),
            static_cast<double>(o.warmup),
            o.schedule == "cosine"  ? 1.
            : o.schedule == "steps" ? 2.
                                    : 0.,
            o.dtype == "bf16" ? 1. : 0.};
  }
  void check_numbers(const std::vector<double>& before, const std::string& file) const {
    const std::vector<double> now = numbers();
    if (before.size() != now.size())
      throw FormatError(file, " is of another version of the program");
    for (size_t i = 0; i < now.size(); ++i)
      if (now[i] != before[i])
        throw ValueError("--resume: ", file, " was written with another ", kNames[i], " (",
                         before[i], ", now ", now[i], "); expected the options of that run");
  }

  checkpoint::Parts parts() {
    const auto loader = std::visit([](auto* l) { return checkpoint::Part(*l); }, run_.loader);
    return {run_.net, run_.trainer, loader, progress_part()};
  }

  void resume() {
    const auto loaded = checkpoint::load(options_.checkpoint, parts());
    if (!loaded) {
      fmt::print("{} holds no checkpoint: the run starts from the beginning\n\n",
                 options_.checkpoint);
      return;
    }
    for (const std::string& s : loaded->skipped)
      if (is_root()) std::cerr << fmt::format("{}: skipped {}\n", run_.program, s);
    checkpoint_ = loaded->path;
    kept_ = step_;
    fmt::print("resumed   {}, after {} steps\n\n", loaded->path, step_);
  }

  // If writing fails, training continues.
  void checkpoint() {
    if (options_.checkpoint.empty()) return;
    if (!losses_.empty()) report();
    try {
      checkpoint_ = checkpoint::save(options_.checkpoint, parts(), {.keep = options_.keep});
      kept_ = step_;
    } catch (const Error& e) {
      progress_.clear();
      if (is_root())
        std::cerr << fmt::format("{}: {}; training continues\n", run_.program, e.what());
    }
  }

  int stopped(int signal) {
    progress_.clear();
    history_.losses = curve_.points();
    write_results(nullptr);
    const std::string how = options_.checkpoint.empty() ? "no --checkpoint was given"
                            : checkpoint_.empty()       ? "no checkpoint could be written"
                            : kept_ == step_
                                ? checkpoint_ + " holds it; continue with --resume"
                                : fmt::format(
                                      "{} holds step {}, the last that could be written; continue "
                                      "from there with --resume",
                                      checkpoint_, kept_);
    fmt::print("ended by {} after step {}: {}\n", signal == SIGINT ? "SIGINT" : "SIGTERM", step_,
               how);
    return 128 + signal;
  }

  void diverged(const Diverged& d) {
    progress_.clear();
    history_.losses = curve_.points();
    write_results(nullptr);
    if (!is_root()) return;
    std::cerr << fmt::format(
        "{}: the loss became {} at step {} (epoch {}, batch {}); try a smaller --lr than {}\n",
        run_.program, std::isnan(d.loss) ? "nan" : "inf", d.step, (d.step - 1) / steps_ + 1,
        (d.step - 1) % steps_ + 1, options_.lr);
    if (saved_epoch_ > 0) {
      std::cerr << fmt::format("{}: {} holds the parameters after epoch {}\n", run_.program,
                               options_.save, saved_epoch_);
    } else if (!options_.save.empty()) {
      std::cerr << fmt::format("{}: no epoch was finished, so {} was not written\n", run_.program,
                               options_.save);
    }
  }

  void write_results(const std::function<Strip()>& strip) const {
    if (options_.out.empty() || history_.epochs.empty()) return;
    cluster::on_root([&] {
      const std::filesystem::path out = options_.out;
      std::filesystem::create_directories(out);
      write_csv(history_, out / "history.csv");
      examples::write_file(out / "curves.svg", chart(history_, strip ? strip() : Strip()));
      fmt::print("wrote {} and {}\n", (out / "history.csv").string(),
                 (out / "curves.svg").string());
    });
  }

  const Run& run_;
  const Options& options_;
  const int64_t steps_;  // of an epoch
  History history_;
  Progress progress_;
  LossLog losses_;
  LossCurve curve_;
  int epoch_ = 1, saved_epoch_ = 0;
  int64_t step_ = 0, samples_ = 0;  // of the run; of this epoch
  double seconds_before_ = 0;
  int stop_ = 0;            // a signal that ends the run
  std::string checkpoint_;  // the last one written, at step kept_
  int64_t kept_ = 0;
};

}  // namespace

std::string describe_contexts(const std::vector<Context>& contexts) {
  std::string text =
      cluster::size() > 1 ? fmt::format("{} ranks, the first on ", cluster::size()) : "";
  if (contexts.size() > 2)
    text += fmt::format("{} contexts, ", contexts.size());
  else
    for (const Context c : contexts) text += to_string(c) + ", ";
  return text + context_info(contexts[0]).name;
}

int train(const Run& run, const Options& options) { return Session(run, options).train(); }

}  // namespace training
