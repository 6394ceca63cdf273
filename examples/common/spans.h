// Records when devices work, on the host's clock. Shows whether work on several devices overlaps.
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

// Measures when streams run their work.
class SpanRecorder {
 public:
  // Call it while the devices are idle.
  explicit SpanRecorder(const std::vector<locus::Context>& contexts);
  // Runs `issue`, which enqueues work on `s` and does not wait. The span lasts from the work's
  // start on the stream to its end.
  void record(locus::Stream& s, const std::function<void()>& issue);
  // The spans of a context's streams, in seconds since construction. Waits for the recorded work.
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

// The total length of spans that do not overlap.
double busy(const std::vector<Span>& spans);
// The time during which spans of both lists are active. Spans of one list do not overlap.
double overlap(const std::vector<Span>& a, const std::vector<Span>& b);
// "gpu(0) worked for 5.00 ms and gpu(1) for 4.00 ms, both at once for 3.00 ms, 75 % of the
// shorter"; below 5 % "one after the other".
std::string at_once_text(const std::string& a, const std::vector<Span>& of_a, const std::string& b,
                         const std::vector<Span>& of_b);

}  // namespace examples
