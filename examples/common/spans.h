// When devices were at work, on the host's clock: so that what ran at once on several of them can
// be told from what ran one after the other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <locus/core/stream.h>

#include "common/moments.h"

namespace examples {

struct Span {
  double begin = 0, end = 0;  // seconds of now()
};

// Measures when streams do what they are told.
class SpanRecorder {
 public:
  // While nothing is under way.
  explicit SpanRecorder(const std::vector<locus::Context>& contexts);
  // Runs `issue`, which tells `s` what to do and does not wait. Its span is from when the stream
  // comes to it until it is done.
  void record(locus::Stream& s, const std::function<void()>& issue);
  // Of a context's streams, in seconds since this was made. Waits for what was recorded.
  std::vector<Span> spans(locus::Context c) const;

 private:
  struct Share {
    locus::Context context;
    Moments::Moment from, to;
  };
  Moments moments_;
  std::vector<Share> shares_;
  double start_;
};

// The time the spans take. Those of one list do not overlap each other.
double busy(const std::vector<Span>& spans);
// The time in which a span of both lists is under way.
double overlap(const std::vector<Span>& a, const std::vector<Span>& b);
// "gpu(0) was at work for 5.00 ms and gpu(1) for 4.00 ms, both at once for 3.00 ms, 75 % of the
// shorter", or "one after the other" when that is below 5 %.
std::string at_once_text(const std::string& a, const std::vector<Span>& of_a, const std::string& b,
                         const std::vector<Span>& of_b);

}  // namespace examples
