#include "common/spans.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/measure.h"

namespace examples {

using namespace locus;

EventClock::Anchor EventClock::anchor(Stream& s) {
  const double before = now();
  Event e = s.record();
  e.wait();
  return {std::move(e), before, now()};
}

// The host may be slow to wake up after a wait: of several anchors the surest is kept.
EventClock::EventClock(Context c) : stream_(c), anchor_(anchor(stream_)) {
  for (int i = 0; i < 20; ++i) {
    Anchor a = anchor(stream_);
    if (a.after - a.before < anchor_.after - anchor_.before) anchor_ = std::move(a);
  }
}

double EventClock::time(const Event& e) const {
  return (anchor_.before + anchor_.after) / 2 + anchor_.event.elapsed_ms(e) / 1000;
}

SpanRecorder::SpanRecorder(const std::vector<Context>& contexts) {
  for (const Context c : contexts) clocks_.emplace_back(c);
  start_ = now();
}

void SpanRecorder::record(Stream& s, const std::function<void()>& issue) {
  Event from = s.record();
  issue();
  shares_.push_back({std::move(from), s.record()});
}

std::vector<Span> SpanRecorder::spans(Context c) const {
  std::vector<Span> list;
  for (const EventClock& clock : clocks_) {
    if (clock.context() != c) continue;
    for (const Share& s : shares_)
      if (s.from.context() == c)
        list.push_back({clock.time(s.from) - start_, clock.time(s.to) - start_});
  }
  return list;
}

double busy(const std::vector<Span>& spans) {
  double sum = 0;
  for (const Span& s : spans) sum += s.end - s.begin;
  return sum;
}

double overlap(const std::vector<Span>& a, const std::vector<Span>& b) {
  double sum = 0;
  for (const Span& x : a)
    for (const Span& y : b)
      sum += std::max(0.0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
  return sum;
}

std::string at_once_text(const std::string& a, const std::vector<Span>& of_a, const std::string& b,
                         const std::vector<Span>& of_b) {
  const double on_a = busy(of_a), on_b = busy(of_b), both = overlap(of_a, of_b);
  const double share = both / std::min(on_a, on_b);
  return fmt::format("{} was at work for {} and {} for {}, {}", a, time_text(on_a), b,
                     time_text(on_b),
                     share < 0.05 ? "one after the other"
                                  : fmt::format("both at once for {}, {:.0f} % of the shorter",
                                                time_text(both), 100 * share));
}

}  // namespace examples
