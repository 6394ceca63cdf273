// How much of an upload hides behind the compute of the batch before: from events, without a wait
// of the host in the loop. hidden = (upload + compute - step) / min(upload, compute).
#include <locus/core/device.h>
#include <locus/nn/prefetch.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

// Events of one stream, in order.
class Times {
 public:
  explicit Times(StreamView s) : stream_(s) {}
  ~Times() {
    for (const EventView& e : events_) device(stream_.context).release(e);
  }
  void mark() { events_.push_back(device(stream_.context).record_time(stream_)); }
  // Between two marks, once the stream is empty.
  double ms(size_t from, size_t to) const {
    return device(stream_.context).elapsed_ms(events_[from], events_[to]);
  }
  double each_ms() const {
    device(stream_.context).synchronize(stream_);
    std::vector<double> steps;
    for (size_t i = 1; i < events_.size(); ++i) steps.push_back(ms(i - 1, i));
    return median(steps);
  }

 private:
  StreamView stream_;
  std::vector<EventView> events_;
};

void hidden(benchmark::State& state, Context c) {
  const bool real = real_gpu();
  // Batches of 64 MiB, and a chain of products about twice as long as their upload.
  const int64_t samples = real ? 1024 : 64, row = real ? 16384 : 1024, n = real ? 4096 : 64;
  const int products = real ? 1 : 4, workers = real ? 12 : 1;
  const data::Dataset set(full({8 * samples, row}, 1, cpu()), full({8 * samples}, 1, cpu()));
  const Tensor w = full({n, n}, 1e-4, c);
  Device& d = device(c);
  const auto work = [&](const Tensor& batch) {
    Tensor y = batch.reshape({-1, n});
    for (int i = 0; i < products; ++i) y = matmul(y, w);
    return y;
  };
  data::Prefetcher loader(set,
                          {.batch_size = samples, .context = c, .workers = workers, .depth = 3});
  const Tensor pinned = full({samples, row}, 1, {cpu_pinned(), f32});
  std::vector<double> fractions;
  double upload = 0, compute = 0, step = 0;
  for (auto _ : state) {
    const double start = seconds();
    {
      Times times(d.stream(Lane::to_device));
      times.mark();
      for (int i = 0; i < 10; ++i) {
        pinned.copyto(c, {.blocking = false});
        times.mark();
      }
      upload = times.each_ms();
    }
    {
      const Tensor batch = pinned.copyto(c);
      work(batch);
      Times times(d.stream(Lane::compute));
      times.mark();
      for (int i = 0; i < 10; ++i) {
        work(batch);
        times.mark();
      }
      compute = times.each_ms();
    }
    {
      Times times(d.stream(Lane::compute));
      for (int epoch = 0; epoch < 4; ++epoch) {
        // The first batch of an epoch has nothing to hide behind.
        for (auto [batch, label] : loader) {
          work(batch);
          times.mark();
        }
      }
      step = times.each_ms();
    }
    fractions.push_back((upload + compute - step) / std::min(upload, compute));
    state.SetIterationTime(seconds() - start);
  }
  state.counters["upload_ms"] = upload;
  state.counters["compute_ms"] = compute;
  state.counters["step_ms"] = step;
  state.counters["hidden_percent"] = 100 * median(fractions);
}

}  // namespace

void add_prefetch() {
  for (const Context c : contexts()) {
    if (is_host(c)) continue;
    benchmark::RegisterBenchmark(("prefetch/hidden/" + to_string(c)).c_str(),
                                 [=](benchmark::State& state) { hidden(state, c); })
        ->UseManualTime()
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace locus::bench
