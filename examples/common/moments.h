// Moments of contexts on one clock, that of now() (measure.h).
#pragma once

#include <map>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/noncopyable.h>

namespace examples {

// Of devices by events in the streams that compute, which keep their order; of the host, whose work
// is done when it was told, by its clock. Threads: several may take() moments of different
// contexts.
class Moments : locus::NonCopyable {
 public:
  struct Moment {
    locus::EventView event;
    double host = 0;
  };

  // While nothing is under way. The host may be slow to see an event: the surest of some is kept.
  explicit Moments(const std::vector<locus::Context>& contexts);
  ~Moments();
  // When c, one of the contexts, was done with what it was told so far.
  Moment take(locus::Context c);
  double time(const Moment& m) const;  // waits for it

 private:
  std::map<locus::Context, Moment> zeros_;
  std::map<locus::Context, std::vector<locus::EventView>> events_;
};

}  // namespace examples
