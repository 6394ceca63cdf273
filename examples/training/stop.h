// SIGINT and SIGTERM become a request: the current step finishes. A second signal of the same kind
// ends the process.
#pragma once

#include <csignal>

namespace training {

// Active while it lives; one at a time.
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
