#include "planning/measured_links.h"

#include <algorithm>
#include <exception>

#include <locus/locus.h>

#include "common/measure.h"

namespace planning {

using namespace locus;

namespace {

// Seconds of f, if `times` calls are enqueued at once.
double each(int times, const std::function<void()>& f) {
  return examples::measure(
             [&] {
               for (int i = 0; i < times; ++i) f();
               wait_all();
             },
             {.seconds = .05})
             .median /
         times;
}

// Bytes left on a context.
double room(Context c) {
  const MemoryStats used = memory_pool(c).stats();
  const auto free = static_cast<double>(device(c).memory().free + used.reserved - used.in_use);
  return used.limit == 0 ? free : std::min(free, static_cast<double>(used.limit - used.in_use));
}

// Sizes that fit 12 times into memory; more than 4 MiB on real GPUs only. Curve extrapolates.
std::vector<double> sizes(const std::vector<Context>& contexts) {
  std::vector<double> all{4096, 65536, 1 << 20, 4 << 20};
  if (examples::real_gpu(contexts[0])) all.push_back(64 << 20);
  for (const Context c : contexts) {
    memory_pool(c).release_cached();
    while (all.size() > 2 && 12 * all.back() > room(c)) all.pop_back();
  }
  return all;
}

Curve measure_copies(Context a, Context b, const std::vector<double>& sizes) {
  Curve curve;
  for (const double bytes : sizes) {
    const Tensor start = zeros({static_cast<int64_t>(bytes) / 4}, a);
    Tensor there = start;
    // There and back; each copy waits for the one before.
    curve.add(bytes, each(8, [&] { there = there.copyto(there.context() == a ? b : a); }));
  }
  return curve;
}

// The extra time of a step that is waited for: one small task alone against many in a row.
double measure_wait(std::span<const Context> contexts) {
  Tensors small;
  for (const Context c : contexts) small.push_back(zeros({256}, c));
  const auto seconds = [&](int tasks) {
    return each(1, [&] {
      for (int i = 0; i < tasks; ++i)
        for (Tensor& t : small) t += 1;
    });
  };
  const double one = seconds(1);
  return std::max(0., one - (seconds(17) - one) / 16);
}

double in_use(Context c) { return static_cast<double>(memory_pool(c).stats().in_use); }

Tensors replicas(const std::vector<Context>& where, double bytes) {
  Tensors all;
  for (const Context c : where) all.push_back(zeros({static_cast<int64_t>(bytes) / 4}, c));
  return all;
}

}  // namespace

MeasuredLinks::MeasuredLinks(const std::vector<Context>& contexts) try : contexts_(contexts) {
  sample_waits();
  if (contexts.size() < 2) return;
  const std::vector<double> all = sizes(contexts);
  copy_ = measure_copies(contexts[0], contexts[1], all);
  for (size_t n = 2; n <= contexts.size(); ++n) {
    const std::vector<Context> some(contexts.begin(), contexts.begin() + static_cast<ptrdiff_t>(n));
    const Group group(some);
    Sums& sums = sums_[static_cast<int>(n)];
    // If sums need memory, run one at a time.
    const int times = examples::real_gpu(contexts[0]) ? 8 : 1;
    for (const double bytes : all) {
      std::vector<Tensors> tensors(4);
      for (Tensors& t : tensors) t = replicas(some, bytes);
      const double one = each(times, [&] { all_reduce_many(group, std::span(tensors).first(1)); }),
                   four = each(times, [&] { all_reduce_many(group, tensors); });
      sums.first.add(bytes, one);
      sums.more.add(bytes, std::max(0., (four - one) / 3));
      memory_pool(some[0]).release_cached();
      const double before = in_use(some[0]);
      all_reduce_many(group, tensors);
      sums.held.add(bytes, std::max(0., in_use(some[0]) - before) / 4);
      wait_all();
    }
  }
} catch (const OutOfMemory&) {
  std::rethrow_exception(reworded([&](const std::string& text) {
    return text + "; links are measured with the smallest tensors that tell, which " +
           to_string(contexts[0]) + " has no room for" + examples::more_memory(contexts[0]);
  }));
}

void MeasuredLinks::sample_waits() {
  waited_ = {};
  for (size_t n = 1; n <= contexts_.size(); ++n)
    waited_.add(static_cast<double>(n), measure_wait(std::span(contexts_).first(n)));
}

void MeasuredLinks::sample_pace(const Model& model, const std::vector<int64_t>& samples) {
  if (examples::real_gpu(contexts_[0]) || context_info(contexts_[0]).modelled) return;
  if (sweeps_.empty())
    for (const int64_t n : samples)
      for (const Context c : contexts_)
        sweeps_[n].push_back(std::make_unique<Sweep>(Sweep::layers_of(model), model.classes, c, n));
  steps_.clear();
  for (size_t n = 1; n <= contexts_.size(); ++n) {
    const std::vector<Context> some(contexts_.begin(),
                                    contexts_.begin() + static_cast<ptrdiff_t>(n));
    for (const auto& [size, sweeps] : sweeps_)
      for (int i = -1; i < 5; ++i) {
        const double start = examples::now();
        parallel(some, [&, &ready = sweeps](int k) { ready[static_cast<size_t>(k)]->run(); });
        wait_all();
        if (i >= 0) steps_[size].add(static_cast<double>(n), examples::now() - start);
      }
  }
}

double MeasuredLinks::pace(double busy, double samples) const {
  if (steps_.empty()) return 1;
  Curve slower;
  for (const auto& [n, steps] : steps_)
    slower.add(static_cast<double>(n), steps.at(std::max(1., busy)) / steps.at(1));
  return slower.at(std::min(samples, static_cast<double>(steps_.rbegin()->first)));
}

double MeasuredLinks::sum_held(int n, const std::vector<double>& bytes) const {
  double all = 0;
  for (const double b : bytes) all += sums_.at(n).held.at(b);
  return all;
}

double MeasuredLinks::sum(int, int, int n, const std::vector<double>& bytes) const {
  if (n < 2 || bytes.empty()) return 0;
  const Sums& sums = sums_.at(n);
  const double largest = *std::ranges::max_element(bytes);
  double all = sums.first.at(largest) - sums.more.at(largest);
  for (const double b : bytes) all += sums.more.at(b);
  return all;
}

}  // namespace planning
