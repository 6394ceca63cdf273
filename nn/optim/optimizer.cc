#include <locus/nn/optimizer.h>

#include <algorithm>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/mutex.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>

namespace locus::optim {

using options::expect, options::not_negative;

struct Optimizer::Progress {
  // The optimizer whose schedule this thread calls.
  static inline thread_local const Progress* asks = nullptr;
  class ScheduleScope : NonCopyable {
   public:
    explicit ScheduleScope(const Progress* p) : before_(std::exchange(asks, p)) {}
    ~ScheduleScope() { asks = before_; }

   private:
    const Progress* const before_;
  };
  std::string name;  // the optimizer's
  options::Range range;
  double learning_rate;  // of the last update, or set
  LRScheduler schedule = {};
  int64_t num_update = 0;
  // Guards counts and rates: several threads may update. Setters run between updates.
  std::shared_ptr<Mutex> mutex = std::make_shared<Mutex>();

  double rate(int64_t n) const {
    if (!schedule) return learning_rate;
    const capture::RecordingPause aside;  // replays ask anew
    const ScheduleScope now(this);
    return schedule(n);
  }
  void add(int64_t& count, int64_t t, double rate) {  // the t-th update of this count
    num_update = std::max(num_update, t);
    learning_rate = rate;
    count = t;
  }
};

// A running update. It is counted when done, because other threads may continue from the count. Its
// replays are counted as they begin.
struct Optimizer::Update {
  bool ended = false;
  int64_t t = 0;  // 0: no step was requested
  double rate = 0;
};

Optimizer::Optimizer(std::string name, const Common& common, const options::Range& rates,
                     Caller from) try
    : name_(std::move(name)),
      common_(common),
      progress_(std::make_shared<Progress>(Progress{name_, rates, common.learning_rate})) {
  expect(name_, "learning_rate", common.learning_rate, not_negative);
  expect(name_, "learning_rate", common.learning_rate, rates);
  expect(name_, "wd", common.wd, not_negative);
  expect(name_, "clip_gradient", common.clip_gradient, not_negative);
} catch (const Error&) {
  rethrow_at(from);
}

Optimizer::Optimizer(const Optimizer& other)
    : name_(other.name_),
      common_(other.common_),
      progress_(std::make_shared<Progress>(*other.progress_)),
      states_(other.states_),
      run_(other.run_) {}

Optimizer& Optimizer::operator=(const Optimizer& other) {
  *progress_ = *other.progress_;
  name_ = other.name_;
  common_ = other.common_;
  states_ = other.states_;
  run_ = other.run_;
  ++*assigned_;
  return *this;
}

double Optimizer::learning_rate() const { return progress_->rate(progress_->num_update); }
void Optimizer::set_learning_rate(double v) {
  if (progress_->schedule)
    throw Error(name_, ": set_learning_rate(", v,
                "), but the schedule says what it is; take that away with set_schedule({}) first");
  expect(name_, "learning_rate", v, progress_->range);
  progress_->learning_rate = v;
}
void Optimizer::set_schedule(LRScheduler schedule) { progress_->schedule = std::move(schedule); }
int64_t Optimizer::num_update() const { return progress_->num_update; }
void Optimizer::set_num_update(int64_t n) {
  expect(name_, "num_update", n, n >= 0, "a number >= 0");
  progress_->num_update = n;
}

bool Optimizer::has_master(DType weight) const {
  return common_.multi_precision && (weight == f16 || weight == bf16);
}

std::vector<std::string> Optimizer::state_names(DType weight) const {
  std::vector<std::string> names = states_;
  if (has_master(weight)) names.emplace_back("weight32");
  return names;
}

std::string Optimizer::state_name(DType weight, size_t state) const {
  const std::vector<std::string> names = state_names(weight);
  return state < names.size() ? names[state] : std::to_string(state);
}

Tensors Optimizer::create_state(const Tensor& weight) const {
  const bool master = has_master(weight.dtype());
  Tensors state;
  for (size_t i = 0; i < states_.size(); ++i)
    state.push_back(zeros(weight.shape(), {weight.context(), master ? f32 : weight.dtype()}));
  if (master) state.push_back(cast(weight, f32));
  return state;
}

void Optimizer::update(ParameterGroup& group, double rescale) {
  if (!run_) throw Error(name_, ": override update(), or say in the constructor which op to use");
  const auto now = std::make_shared<Update>();
  run_(group, next_step(group, rescale, now));
  const MutexLock lock(*progress_->mutex);
  now->ended = true;
  if (now->t > 0) progress_->add(*group.count, now->t, now->rate);
}

std::function<Optimizer::Step()> Optimizer::next_step(const ParameterGroup& group,
                                                      double rescale) const {
  return next_step(group, rescale, nullptr);
}

std::function<Optimizer::Step()> Optimizer::next_step(const ParameterGroup& group, double rescale,
                                                      std::shared_ptr<Update> now) const {
  if (!group.count)
    throw ValueError(name_,
                     ": the group's count is a null pointer; expected the number of updates");
  if (capture::active()) capture::depends_on(assigned_);
  return [progress = progress_, count = group.count, factor = group.lr_mult,
          wd = common_.wd * group.wd_mult, rescale, clip = common_.clip_gradient.value_or(-1),
          now = std::move(now)] {
    if (Progress::asks == progress.get())
      throw Error(progress->name,
                  ": its schedule makes an update, which would ask it for the rate; "
                  "expected a function of the number of updates");
    const MutexLock lock(*progress->mutex);
    const int64_t t = *count + 1, n = std::max(progress->num_update, t);
    const double rate = progress->rate(n), lr = rate * factor;
    if (!progress->range.holds(lr)) [[unlikely]]
      expect(progress->name, "learning_rate", text_of(lr, " of update ", n), false,
             progress->range.text);
    // Nothing throws from here on.
    if (now && !now->ended) {
      now->t = t;
      now->rate = rate;
    } else {
      progress->add(*count, t, rate);
    }
    return Step{lr, wd, rescale, clip, t};
  };
}

}  // namespace locus::optim
