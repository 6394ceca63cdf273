// Times of events on several contexts, on the clock of now() (measure.h).
#pragma once

#include <map>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/noncopyable.h>

namespace examples {

// Devices are timed by events on the current stream, the host by its clock, because its work ends
// before the call returns. Threads: several may take() moments of different contexts.
class Moments : locus::NonCopyable {
 public:
  struct Moment {
    locus::EventView event;
    double host = 0;
  };

  // Call it while the devices are idle. Synchronizes each clock 20 times and keeps the tightest
  // result.
  explicit Moments(const std::vector<locus::Context>& contexts);
  ~Moments();
  // The time when the work enqueued on c so far is done. c is one of the constructor's contexts.
  Moment take(locus::Context c);
  double time(const Moment& m) const;  // waits for the moment

 private:
  std::map<locus::Context, Moment> zeros_;
  std::map<locus::Context, std::vector<locus::EventView>> events_;
};

}  // namespace examples
