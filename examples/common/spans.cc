#include "common/spans.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/measure.h"

namespace examples {

using namespace locus;

SpanRecorder::SpanRecorder(const std::vector<Context>& contexts)
    : moments_(contexts), start_(now()) {}

void SpanRecorder::record(Stream& s, const std::function<void()>& issue) {
  const auto moment = [&] {
    const StreamScope on(s);
    return moments_.take(s.context());
  };
  const Moments::Moment from = moment();
  issue();
  shares_.push_back({s.context(), from, moment()});
}

std::vector<Span> SpanRecorder::spans(Context c) const {
  std::vector<Span> list;
  for (const Share& s : shares_)
    if (s.context == c)
      list.push_back({moments_.time(s.from) - start_, moments_.time(s.to) - start_});
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
  return fmt::format("{} worked for {} and {} for {}, {}", a, time_text(on_a), b, time_text(on_b),
                     share < 0.05 ? "one after the other"
                                  : fmt::format("both at once for {}, {:.0f} % of the shorter",
                                                time_text(both), 100 * share));
}

}  // namespace examples
