// Uploading one array while the GPU computes on another, three ways:
//   two streams as often printed   but both uploads are put on the first stream, so each waits for
//                                  everything before it there and nothing overlaps
//   two streams, mended            the second array is uploaded on the second stream
//   plain copies                   x.copyto(gpu, {.blocking = false}): uploads have a stream of
//                                  their own, and what uses an array waits for that array alone
// Only page-locked memory (cpu_pinned) can be read by the GPU while the program goes on.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

// Work of adjustable length; the values stay near 0 and exact arithmetic is not needed.
Tensor compute(const Tensor& x, int passes) {
  Tensor y = x;
  for (int i = 0; i < passes; ++i) y = y * 0.5 + 1;
  return y;
}

struct Way {
  std::string name;
  std::function<void()> run;
  double seconds = 0;
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

  double upload_seconds() {
    return measure([&] {
             upload_on(stream1_, pinned1_, on_first_);
             stream1_.synchronize();
           })
        .median;
  }
  double compute_seconds(int passes) {
    return measure([&] {
             compute_on(stream1_, on_first_, passes);
             stream1_.synchronize();
           })
        .median;
  }

  // The second upload goes behind the first array's computation.
  void as_printed(int passes) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, passes);
    upload_on(stream1_, pinned2_, on_first_too_);
    y2_ = compute_on(stream1_, on_first_too_, passes);
    finish();
  }
  void mended(int passes) {
    upload_on(stream1_, pinned1_, on_first_);
    y1_ = compute_on(stream1_, on_first_, passes);
    upload_on(stream2_, pinned2_, on_second_);
    y2_ = compute_on(stream1_, on_second_, passes);  // waits for the upload by itself
    finish();
  }
  void plain(int passes) {
    const Tensor x1 = pinned1_.copyto(context_, {.blocking = false});
    y1_ = compute(x1, passes);
    const Tensor x2 = pinned2_.copyto(context_, {.blocking = false});
    y2_ = compute(x2, passes);
    finish();
  }

  // Whether the last way computed what the CPU does.
  void check(const std::string& way, int passes) const {
    check_error(way, relative_error(y1_, compute(pinned1_.copyto(cpu()), passes)), 1e-6);
    check_error(way, relative_error(y2_, compute(pinned2_.copyto(cpu()), passes)), 1e-6);
  }

 private:
  // Returns at once.
  void upload_on(const Stream& s, const Tensor& from, const Tensor& to) {
    const StreamScope on(s);
    from.copyto(to, {.blocking = false});
  }
  Tensor compute_on(const Stream& s, const Tensor& x, int passes) {
    const StreamScope on(s);
    return compute(x, passes);
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

void run(const Program& program, int64_t size) {
  const Context c = program.context();
  if (is_host(c))
    throw std::runtime_error(
        "an upload needs a GPU and there is none: nothing was measured. LOCUS_EMULATED_GPUS=1 "
        "LOCUS_EMULATED_LINK=\"h2d=55\" shows how it works, with times that are modelled");
  program.print_machine({c});
  const int64_t n = size > 0 ? size : emulated(c) ? 4'000'000 : 64'000'000;
  Upload u(c, n);
  const double start = now();
  u.as_printed(1);
  fmt::print("First use, not in the table: {}\n\n", time_text(now() - start));
  // As much computation as an upload takes: then there is the most to hide.
  const double upload = u.upload_seconds();
  const int passes =
      static_cast<int>(std::clamp(std::round(4 * upload / u.compute_seconds(4)), 1.0, 1000.0));
  const double computing = u.compute_seconds(passes);

  std::vector<Way> ways{{"both uploads on one stream, as printed", [&] { u.as_printed(passes); }},
                        {"the second on its own stream, mended", [&] { u.mended(passes); }},
                        {"plain non-blocking copies", [&] { u.plain(passes); }}};
  const double bytes = 4 * static_cast<double>(n), shorter = std::min(upload, computing);
  Table table({"way",
               {"time", "seconds"},
               {"hidden", "hidden_seconds"},
               {"of what can be hidden", "share"}});
  std::vector<svg::Bar> bars;
  for (Way& w : ways) {
    w.seconds = measure(w.run).median;
    u.check(w.name, passes);
    const double hidden = std::max(0.0, ways[0].seconds - w.seconds), share = hidden / shorter;
    const bool first = &w == &ways[0];
    const Cell none("-", "0");
    table.add(
        {w.name, time_cell(w.seconds), first ? none : time_cell(hidden),
         first ? none : Cell(fmt::format("{:.0f} %", 100 * share), fmt::format("{:.3f}", share))},
        c);
    bars.push_back({w.name, w.seconds, time_text(w.seconds), first ? svg::kAmber : svg::kBlue});
  }
  fmt::print("{}\n", table.aligned());
  std::string s = fmt::format(
      "An upload of {:.0f} MB takes {} ({:.1f} GB/s) and the computation on it {}; there are two "
      "of each. With both uploads on one stream all four follow each other: {}. Mended, the "
      "second upload can run while the first array is computed on, which hides at most {}; it "
      "took {}. Plain copies do the same without any stream in the program: {}.",
      bytes / 1e6, time_text(upload), bytes / upload / 1e9, time_text(computing),
      time_text(ways[0].seconds), time_text(shorter), time_text(ways[1].seconds),
      time_text(ways[2].seconds));
  if (std::any_of(ways.begin(), ways.end(), [&](const Way& w) {
        return std::abs(ways[0].seconds - w.seconds) > 1.15 * shorter;
      }))
    s += " Differences above what can be hidden are scatter of the computation's time.";
  if (context_info(c).modelled) {
    s += " The GPU is emulated and its times modelled.";
  } else if (emulated(c)) {
    s +=
        " Copies and computation of an emulated GPU share this machine's cores, so this run cannot "
        "show what a real one gains; with LOCUS_EMULATED_LINK=\"h2d=55\" it models one.";
  }
  program.finish(table, Program::Bars{.title = "Uploading one array while computing on another",
                                      .list = {c},
                                      .label_width = 280,
                                      .bars = bars,
                                      .explanation = s});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("async_upload", "Uploads that overlap with computation, and one that does not.",
                  RunsOn::one);
  program.options()
      .add_option("--n", n, "numbers in an array (default: 64 million on a GPU, 4 if emulated)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
