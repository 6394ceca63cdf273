#include <locus/nn/checkpoint/checkpoint_part.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <set>

#include <locus/core/error.h>
#include <locus/core/generator.h>
#include <locus/core/tuning.h>
#include <locus/nn/options.h>
#include <locus/ops/create.h>

namespace locus::checkpoint {
namespace {

int64_t as_i64(uint64_t v) { return std::bit_cast<int64_t>(v); }

// A vector of this dtype, else FormatError.
const Tensor& find(const NamedTensors& state, const std::string& name, DType dtype,
                   const std::string& file) {
  const Tensor* const t = find_in(state, name);
  if (!t || !t->defined() || t->dtype() != dtype || t->ndim() != 1)
    throw FormatError("checkpoint: ", file, " has no vector '", name, "' of ", locus::name(dtype));
  return *t;
}

template <class T>
std::vector<T> vector_of(const NamedTensors& state, const std::string& name, size_t n,
                         const std::string& file) {
  const auto v = find(state, name, dtype_of<T>(), file).template to_vector<T>();
  if (v.size() != n)
    throw FormatError("checkpoint: ", file, ": '", name, "' has ", v.size(), " numbers; expected ",
                      n);
  return v;
}

void expect_file_name(const std::string& name) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  if (name.empty() || !std::ranges::all_of(name, plain))
    throw ValueError("checkpoint: a part named '", name,
                     "'; expected letters, digits, '_' and '-': it names a file");
}

// The state of random numbers that `get` returns and `set` takes.
Part random_part(std::string name, std::function<PhiloxKey()> get,
                 std::function<void(PhiloxKey)> set) {
  return {std::move(name),
          [get] {
            const PhiloxKey key = get();
            return NamedTensors{
                {"philox",
                 array(std::vector<int64_t>{as_i64(key.seed), as_i64(key.offset)}, {cpu(), i64})}};
          },
          [set](const NamedTensors& state, const std::string& file) -> std::function<void()> {
            const auto v = vector_of<int64_t>(state, "philox", 2, file);
            return [set, key = PhiloxKey{static_cast<uint64_t>(v[0]),
                                         static_cast<uint64_t>(v[1])}] { set(key); };
          }};
}

Part tuning_part() {
  return {kTuning,
          [] {
            const std::string text = tuning::to_json(tuning::choices().table());
            return NamedTensors{
                {"choices", array(std::vector<uint8_t>(text.begin(), text.end()), {cpu(), u8})}};
          },
          [](const NamedTensors& state, const std::string& file) -> std::function<void()> {
            const auto v = find(state, "choices", u8, file).to_vector<uint8_t>();
            return [table = tuning::from_json({v.begin(), v.end()}, file)] {
              tuning::choices().set(table);
            };
          }};
}

Part loader_part(auto& loader) {
  return {
      "loader",
      [&loader] {
        const data::LoaderState s = loader.state();
        const std::vector<int64_t> v{
            s.samples,      s.batch_size, s.shuffle, static_cast<int64_t>(s.last_batch),
            as_i64(s.seed), s.epoch,      s.position};
        return NamedTensors{{"state", array(v, {cpu(), i64})}};
      },
      [&loader](const NamedTensors& state, const std::string& file) -> std::function<void()> {
        const auto v = vector_of<int64_t>(state, "state", 7, file);
        const data::LoaderState s{
            v[0], v[1], v[2] != 0, static_cast<data::LastBatch>(v[3]), static_cast<uint64_t>(v[4]),
            v[5], v[6]};
        loader.check_state(s);
        return [&loader, s] { loader.set_state(s); };
      }};
}

}  // namespace

Parts with_own(const Parts& parts) {
  Parts all = parts;
  all.push_back(random_part("random", random::state, random::set_state));
  all.push_back(tuning_part());
  std::set<std::string> names;
  for (const Part& p : all)
    if (!names.insert(p.name()).second)
      throw ValueError("checkpoint: two parts are named '", p.name(),
                       "'; give one of them another with Part(...).named(...)");
  return all;
}

Part::Part(std::string name, State state, Restore restore)
    : name_(std::move(name)), state_(std::move(state)) {
  expect_file_name(name_);
  options::expect_function("checkpoint: part '" + name_ + "'", "state", state_);
  options::expect_function("checkpoint: part '" + name_ + "'", "restore", restore);
  restore_ = [restore = std::move(restore)](NamedTensors given, const std::string& file, auto&) {
    return restore(std::move(given), file);
  };
}

Part::Part(nn::Block& network)
    : name_("network"),
      state_([&network] { return network.values(Caller::here()); }),
      restore_([&network](NamedTensors given, const std::string& file, auto& to_come) {
        return network.prepare_load(std::move(given), file, {}, {}, Caller::here(), &to_come);
      }),
      network_(true) {}

Part::Part(std::string name, std::vector<std::pair<std::string, std::vector<double>*>> numbers)
    : Part(
          std::move(name),
          [numbers] {
            NamedTensors state;
            for (const auto& [key, values] : numbers)
              state.emplace_back(key, array(*values, {cpu(), f64}));
            return state;
          },
          [numbers](const NamedTensors& state, const std::string& file) -> std::function<void()> {
            std::vector<std::vector<double>> read;
            for (const auto& [key, values] : numbers)
              read.push_back(find(state, key, f64, file).to_vector<double>());
            return [numbers, read = std::move(read)] {
              for (size_t i = 0; i < numbers.size(); ++i) *numbers[i].second = read[i];
            };
          }) {}

Part::Part(nn::Trainer& trainer)
    : name_("trainer"),
      state_([&trainer] { return trainer.states(); }),
      restore_([&trainer](NamedTensors given, const std::string& file, auto& to_come) {
        return trainer.prepare_restore(std::move(given), file, to_come, Caller::here());
      }) {}

Part::Part(data::DataLoader& loader) : Part(loader_part(loader)) {}
Part::Part(data::Prefetcher& loader) : Part(loader_part(loader)) {}
Part::Part(amp::LossScaler& scaler)
    : Part(
          "scaler",
          [&scaler] {
            const amp::LossScalerState s = scaler.state();
            return NamedTensors{
                {"loss_scale", array({s.loss_scale}, {cpu(), f64})},
                {"steps", array(std::vector<int64_t>{s.unskipped, s.skipped}, {cpu(), i64})}};
          },
          [&scaler](const NamedTensors& state, const std::string& file) -> std::function<void()> {
            const auto scale = vector_of<double>(state, "loss_scale", 1, file);
            const auto steps = vector_of<int64_t>(state, "steps", 2, file);
            const amp::LossScalerState s{scale[0], steps[0], steps[1]};
            scaler.check_state(s);
            return [&scaler, s] { scaler.set_state(s); };
          }) {}

Part::Part(random::Generator generator)
    : Part(random_part(
          "generator", [generator] { return generator.state(); },
          [generator](PhiloxKey key) mutable { generator.set_state(key); })) {}

Part Part::named(std::string name) const {
  Part p = *this;
  p.name_ = std::move(name);
  expect_file_name(p.name_);
  return p;
}

}  // namespace locus::checkpoint
