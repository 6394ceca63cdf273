// Uploads one array while the GPU computes on another, in three ways:
//   both uploads on one stream            a common mistake: each waits for everything before it,
//   and
//                                         nothing overlaps
//   the second upload on its own stream   overlaps with the first computation
//   non-blocking copies                   x.copyto(gpu, {.blocking = false}): uploads have a
//                                         separate stream; a user of an array waits for that array
// The program can continue during an upload only from page-locked memory (cpu_pinned).
//   async_upload --out out
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/devices/emulated_link.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

// Work of adjustable length: passes over the first `count` numbers of an array. The values stay
// near 0.
struct Work {
  int64_t count;
  int passes;
};
Tensor compute(const Tensor& x, const Work& work) {
  Tensor y = x(Slice(0, work.count));
  for (int i = 0; i < work.passes; ++i) y = y * 0.5 + 1;
  return y;
}

struct Way {
  std::string name;
  std::function<void()> run, check;
  std::vector<double> times = {};  // one per round
  double seconds = 0;              // median of `times`
  double saved = 0, spread = 0;    // time saved against the first way: median, spread
};

class Upload {
 public:
  Upload(Context c, int64_t n)
      : context_(c),
        pinned1_(random::uniform(-1, 1, {n}).copyto(cpu_pinned())),
        pinned2_(random::uniform(-1, 1, {n}).copyto(cpu_pinned())),
        stream1_(c),
        stream2_(c) {
    const StreamScope on(stream1_);
    on_first_ = empty({n}, c);
    on_first_too_ = empty({n}, c);
    const StreamScope then_on(stream2_);
    on_second_ = empty({n}, c);
  }

  void upload_one() {
    upload_on(stream1_, pinned1_, on_first_);
    stream1_.synchronize();
  }
  void compute_one(const Work& work) {
    compute_on(stream1_, on_first_, work);
    stream1_.synchronize();
  }

  // The second upload waits for the first array's computation.
  void one_stream(const Work& work) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, work);
    upload_on(stream1_, pinned2_, on_first_too_);
    y2_ = compute_on(stream1_, on_first_too_, work);
    finish();
  }
  void two_streams(const Work& work) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, work);
    upload_on(stream2_, pinned2_, on_second_);
    y2_ = compute_on(stream1_, on_second_, work);  // waits for the upload by itself
    finish();
  }
  void non_blocking(const Work& work) {
    const Tensor x1 = pinned1_.copyto(context_, {.blocking = false});
    y1_ = compute(x1, work);
    const Tensor x2 = pinned2_.copyto(context_, {.blocking = false});
    y2_ = compute(x2, work);
    finish();
  }

  // Compares the last results with the CPU's.
  void check(const std::string& way, const Work& work) const {
    check_error(way, relative_error(y1_, compute(pinned1_.copyto(cpu()), work)), 1e-6);
    check_error(way, relative_error(y2_, compute(pinned2_.copyto(cpu()), work)), 1e-6);
  }

 private:
  // Does not wait.
  void upload_on(const Stream& s, const Tensor& from, const Tensor& to) {
    const StreamScope on(s);
    from.copyto(to, {.blocking = false});
  }
  Tensor compute_on(const Stream& s, const Tensor& x, const Work& work) {
    const StreamScope on(s);
    return compute(x, work);
  }
  void finish() {
    y1_.wait_to_read();
    y2_.wait_to_read();
  }

  Context context_;
  Tensor pinned1_, pinned2_;
  Stream stream1_, stream2_;
  Tensor on_first_, on_first_too_, on_second_, y1_, y2_;
};

// As much computation as an upload takes, which leaves most to hide. Time is not proportional to
// length, so it is adjusted a few times.
Work work_for(Upload& u, int64_t n) {
  const double upload = measure([&] { u.upload_one(); }).median;
  Work work{n, 1};
  for (int i = 0; i < 4; ++i) {
    const double wanted = upload / measure([&] { u.compute_one(work); }).median;
    const double numbers = static_cast<double>(work.count) * work.passes * wanted;
    const double passes = std::clamp(std::round(numbers / static_cast<double>(n)), 1.0, 1000.0);
    work.passes = static_cast<int>(passes);
    work.count = std::clamp<int64_t>(static_cast<int64_t>(numbers / passes), 1, n);
  }
  return work;
}

// Rounds over the ways, so a disturbance slows all of them.
void measure_ways(std::vector<Way>& ways) {
  const double start = now();
  for (int round = -1; round < 11 || (now() - start < 0.5 && round < 200); ++round) {
    for (Way& w : ways) {
      const double from = now();
      w.run();
      if (round >= 0) w.times.push_back(now() - from);
      if (round < 0) w.check();
    }
  }
  for (Way& w : ways) {
    w.seconds = median(w.times);
    std::vector<double> saved;
    for (size_t i = 0; i < w.times.size(); ++i) saved.push_back(ways[0].times[i] - w.times[i]);
    std::sort(saved.begin(), saved.end());
    w.saved = median(saved);
    // Of the middle half of the rounds.
    w.spread = saved[saved.size() * 3 / 4] - saved[saved.size() / 4];
  }
}

// Whether the spread is small enough to tell the result.
bool shows(const Way& w, double most) {
  return w.spread <= most && w.saved <= most + w.spread && w.saved >= -w.spread;
}

std::string result(const Way& w, double most) {
  if (shows(w, most)) {
    if (w.saved <= w.spread / 2) return "which saved nothing";
    return fmt::format("which saved {} ± {}", time_text(w.saved), time_text(w.spread / 2));
  }
  if (w.spread > most)
    return fmt::format(
        "and this run cannot show what it saved: the spread, {}, is larger than what can be saved",
        time_text(w.spread));
  return fmt::format("and this run cannot show what it saved: {} {} cannot come from uploads",
                     time_text(std::abs(w.saved)), w.saved > 0 ? "less" : "more");
}

std::string explain(const std::vector<Way>& ways, Context c, double bytes) {
  const double upload = ways[3].seconds, computing = ways[4].seconds;
  const double most = std::min(upload, computing);
  std::string s = fmt::format(
      "An upload of {} takes {} ({}), and the computation on it {}. There are two of each. With "
      "both uploads on one stream, all four run one after the other: {}. With the second upload on "
      "its own stream, it can run while the first array is computed on. This can save at most {}; "
      "it took {}, {}. Non-blocking copies need no streams in the program; they took {}, {}.",
      si_text(bytes, "B"), time_text(upload), si_text(bytes / upload, "B/s"), time_text(computing),
      time_text(ways[0].seconds), time_text(most), time_text(ways[1].seconds),
      result(ways[1], most), time_text(ways[2].seconds), result(ways[2], most));
  if (context_info(c).modelled) {
    const double link = locus::emulated::link_model()->h2d * 1e9;
    if (bytes / upload < 0.7 * link && upload > 1e-4)
      s += fmt::format(
          " Uploads are slower than the modelled link ({}), because two of them share this "
          "machine's "
          "memory. A slower link, such as LOCUS_EMULATED_LINK=\"h2d=4\", is modelled better.",
          si_text(link, "B/s"));
  } else if (examples::emulated(c)) {
    s += " Copies and computation share this machine's cores here, so this run cannot show what a "
         "real GPU gains.";
  }
  return s;
}

void run(const Program& program, int64_t size) {
  const Context c = program.context();
  if (is_host(c))
    throw std::runtime_error(fmt::format(
        "an upload needs a GPU and {}: nothing was measured{}",
        num_gpus() > 0 ? to_string(c) + " is none" : "there is none",
        num_gpus() > 0 ? ""
                       : ". LOCUS_EMULATED_GPUS=1 LOCUS_EMULATED_LINK=\"h2d=4\" shows how it "
                         "works, with times that are modelled"));
  program.print_machine({c});
  const int64_t n = size > 0 ? size : examples::emulated(c) ? 4'000'000 : 64'000'000;
  Upload u(c, n);
  const double start = now();
  u.one_stream({n, 1});
  fmt::print("First use, not in the table: {}\n\n", time_text(now() - start));
  const Work work = work_for(u, n);
  const auto way = [&](const std::string& name, void (Upload::*run)(const Work&)) {
    return Way{name, [&u, run, &work] { (u.*run)(work); },
               [&u, name, &work] { u.check(name, work); }};
  };
  std::vector<Way> ways{way("both uploads on one stream", &Upload::one_stream),
                        way("the second upload on its own stream", &Upload::two_streams),
                        way("non-blocking copies", &Upload::non_blocking),
                        {"one upload alone", [&] { u.upload_one(); }, [] {}},
                        {"one computation alone", [&] { u.compute_one(work); }, [] {}}};
  measure_ways(ways);
  const double most = std::min(ways[3].seconds, ways[4].seconds);
  Table table({"way",
               {"time", "seconds"},
               {"saved", "saved_seconds"},
               {"spread", "spread_seconds"},
               {"share of overlap", "share"}});
  std::vector<svg::Bar> bars;
  for (const Way& w : ways) {
    const bool compared = &w == &ways[1] || &w == &ways[2];
    const double share = std::max(0.0, w.saved / most);
    const Cell none("-", "");
    const Cell saved(w.saved > 0 ? time_text(w.saved) : "0 s", fmt::format("{:.6g}", w.saved));
    table.add({w.name, time_cell(w.seconds), compared ? saved : none,
               compared ? time_cell(w.spread) : none,
               !compared || !shows(w, most)
                   ? none
                   : Cell(fmt::format("{:.0f} %", 100 * share), fmt::format("{:.3f}", share))},
              c);
    bars.push_back({w.name, w.seconds, time_text(w.seconds),
                    compared         ? svg::kBlue
                    : &w == &ways[0] ? svg::kAmber
                                     : svg::kMuted});
  }
  fmt::print("{}\n", table.aligned());
  program.finish(table, Program::Bars{.title = "Uploading one array while computing on another",
                                      .list = {c},
                                      .label_width = 280,
                                      .bars = bars,
                                      .explanation = explain(ways, c, 4 * static_cast<double>(n))});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("async_upload", "Uploads that overlap with computation, and one that does not.",
                  RunsOn::one);
  program.options()
      .add_option("--n", n, "numbers in an array (default: 64 million on a GPU, 4 if emulated)")
      ->check(whole(1, int64_t{1} << 32));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
