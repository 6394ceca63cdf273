// SIGINT and SIGTERM as a request: the step that runs is finished first. A second one ends the
// process at once.
#pragma once

#include <csignal>

namespace training {

// While it lives. One at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  int signal() const;  // 0: none yet

 private:
  struct sigaction before_[2];
};

}  // namespace training
