// Trainer's public functions. Their errors name the caller's line.
#include <locus/nn/trainer.h>

#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/train/trainer_impl.h>

namespace locus::nn {

Trainer::Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
                 const TrainerOptions& options, Caller from) try
    : impl_(std::make_unique<Impl>(parameters, std::move(optimizer), options, from)) {
} catch (const Error&) {
  rethrow_at(from);
}
Trainer::Trainer(const Parameters& parameters, std::string_view optimizer,
                 const optim::OptionValues& options, const TrainerOptions& trainer_options,
                 Caller from) try
    : Trainer(parameters, optim::create(optimizer, options), trainer_options, from) {
} catch (const Error&) {
  rethrow_at(from);
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Trainer::Impl& Trainer::impl() const {
  if (!impl_) throw Error("Trainer: was moved from; use the trainer that it was moved to");
  return *impl_;
}

uint64_t Trainer::id() const { return impl().id(); }

void Trainer::step(int64_t batch_size, bool ignore_stale_grad, Caller from) try {
  const UserLine user_line(from);
  impl().step(batch_size, ignore_stale_grad, from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::allreduce_grads(Caller from) try {
  const UserLine user_line(from);
  impl().allreduce_grads(from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::update(int64_t batch_size, bool ignore_stale_grad, Caller from) try {
  const UserLine user_line(from);
  impl().update(batch_size, ignore_stale_grad, from);
} catch (const Error&) {
  rethrow_at(from);
}
bool Trainer::update_if_finite(int64_t batch_size, double loss_scale, bool ignore_stale_grad,
                               Caller from) try {
  const UserLine user_line(from);
  return impl().update_if_finite(batch_size, loss_scale, ignore_stale_grad, from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::discard(Caller from) try { impl().discard(from); } catch (const Error&) {
  rethrow_at(from);
}
Tensor Trainer::clip_global_norm(double max_norm, int64_t batch_size, double loss_scale,
                                 Caller from) try {
  const UserLine user_line(from);
  return impl().clip_global_norm(max_norm, batch_size, loss_scale, from);
} catch (const Error&) {
  rethrow_at(from);
}

double Trainer::learning_rate() const { return impl().optimizer().learning_rate(); }
void Trainer::set_learning_rate(double v, Caller from) try {
  impl().optimizer().set_learning_rate(v);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::set_schedule(optim::LRScheduler s, Caller from) try {
  impl().optimizer().set_schedule(std::move(s));
} catch (const Error&) {
  rethrow_at(from);
}
int64_t Trainer::num_update() const { return impl().optimizer().num_update(); }

NamedTensors Trainer::states(Caller from) try {
  const UserLine user_line(from);
  return impl().states(from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::set_states(const NamedTensors& states, Caller from) try {
  const UserLine user_line(from);
  impl().restore(states, "Trainer::set_states", from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::save_states(const std::string& path, Caller from) try {
  const UserLine user_line(from);
  save(path, states(from), from);
} catch (const Error&) {
  rethrow_at(from);
}
void Trainer::load_states(const std::string& path, Caller from) try {
  const UserLine user_line(from);
  impl().restore(load(path, cpu(), from), "Trainer::load_states: " + path, from);
} catch (const Error&) {
  rethrow_at(from);
}
std::function<void()> Trainer::prepare_restore(NamedTensors states, const std::string& who,
                                               const ShapesToCome& to_come, Caller from) {
  return impl().prepare_restore(std::move(states), who, to_come, from);
}

}  // namespace locus::nn
