// Uploads one array while the GPU computes on another, in three ways:
//   two streams as often printed   both uploads are on the first stream, so each waits for
//                                  everything before it; nothing overlaps
//   two streams, mended            the second array is uploaded on the second stream
//   plain copies                   x.copyto(gpu, {.blocking = false}): uploads have a separate
//                                  stream; a user of an array waits only for that array
// The program can go on during an upload only from page-locked memory (cpu_pinned).
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
  double hidden = 0, scatter = 0;  // time saved against the first way: median, spread
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
  void as_printed(const Work& work) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, work);
    upload_on(stream1_, pinned2_, on_first_too_);
    y2_ = compute_on(stream1_, on_first_too_, work);
    finish();
  }
  void mended(const Work& work) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, work);
    upload_on(stream2_, pinned2_, on_second_);
    y2_ = compute_on(stream1_, on_second_, work);  // waits for the upload by itself
    finish();
  }
  void plain(const Work& work) {
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
    std::vector<double> hidden;
    for (size_t i = 0; i < w.times.size(); ++i) hidden.push_back(ways[0].times[i] - w.times[i]);
    std::sort(hidden.begin(), hidden.end());
    w.hidden = median(hidden);
    // Of the middle half of the rounds.
    w.scatter = hidden[hidden.size() * 3 / 4] - hidden[hidden.size() / 4];
  }
}

// Whether the spread is small enough to tell the result.
bool shows(const Way& w, double most) {
  return w.scatter <= most && w.hidden <= most + w.scatter && w.hidden >= -w.scatter;
}

std::string result(const Way& w, double most) {
  if (shows(w, most)) {
    if (w.hidden <= w.scatter / 2) return "which hid nothing";
    return fmt::format("which hid {} ± {}", time_text(w.hidden), time_text(w.scatter / 2));
  }
  if (w.scatter > most)
    return fmt::format(
        "and this run cannot show what it hid: the scatter, {}, is larger than what could be "
        "hidden",
        time_text(w.scatter));
  return fmt::format("and this run cannot show what it hid: {} {} is more than uploads explain",
                     time_text(std::abs(w.hidden)), w.hidden > 0 ? "less" : "more");
}

std::string explain(const std::vector<Way>& ways, Context c, double bytes) {
  const double upload = ways[3].seconds, computing = ways[4].seconds;
  const double most = std::min(upload, computing);
  std::string s = fmt::format(
      "An upload of {} takes {} ({}) and the computation on it {}; there are two of each. With "
      "both uploads on one stream all four follow each other: {}. Mended, the second upload can "
      "run while the first array is computed on, which hides at most {}; it took {}, {}. Plain "
      "copies need no stream in the program; they took {}, {}.",
      si_text(bytes, "B"), time_text(upload), si_text(bytes / upload, "B/s"), time_text(computing),
      time_text(ways[0].seconds), time_text(most), time_text(ways[1].seconds),
      result(ways[1], most), time_text(ways[2].seconds), result(ways[2], most));
  if (context_info(c).modelled) {
    s += " The GPU is emulated and its times modelled.";
    const double link = locus::emulated::link_model()->h2d * 1e9;
    if (bytes / upload < 0.7 * link && upload > 1e-4)
      s += fmt::format(
          " But uploads are slower than the {} of its link: they take this machine's memory, which "
          "two at once share. A slower link, LOCUS_EMULATED_LINK=\"h2d=4\", is modelled better.",
          si_text(link, "B/s"));
  } else if (examples::emulated(c)) {
    s +=
        " Copies and computation of an emulated GPU share this machine's cores, so this run cannot "
        "show what a real one gains; with LOCUS_EMULATED_LINK=\"h2d=4\" it models one.";
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
  u.as_printed({n, 1});
  fmt::print("First use, not in the table: {}\n\n", time_text(now() - start));
  const Work work = work_for(u, n);
  const auto way = [&](const std::string& name, void (Upload::*run)(const Work&)) {
    return Way{name, [&u, run, &work] { (u.*run)(work); },
               [&u, name, &work] { u.check(name, work); }};
  };
  std::vector<Way> ways{way("both uploads on one stream, as printed", &Upload::as_printed),
                        way("the second on its own stream, mended", &Upload::mended),
                        way("plain non-blocking copies", &Upload::plain),
                        {"one upload alone", [&] { u.upload_one(); }, [] {}},
                        {"one computation alone", [&] { u.compute_one(work); }, [] {}}};
  measure_ways(ways);
  const double most = std::min(ways[3].seconds, ways[4].seconds);
  Table table({"way",
               {"time", "seconds"},
               {"hidden", "hidden_seconds"},
               {"scatter", "scatter_seconds"},
               {"of what can be hidden", "share"}});
  std::vector<svg::Bar> bars;
  for (const Way& w : ways) {
    const bool compared = &w == &ways[1] || &w == &ways[2];
    const double share = std::max(0.0, w.hidden / most);
    const Cell none("-", "");
    const Cell hidden(w.hidden > 0 ? time_text(w.hidden) : "0 s", fmt::format("{:.6g}", w.hidden));
    table.add({w.name, time_cell(w.seconds), compared ? hidden : none,
               compared ? time_cell(w.scatter) : none,
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
