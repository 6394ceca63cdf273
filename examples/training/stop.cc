#include "training/stop.h"

namespace training {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t caught = 0;

}  // namespace

StopRequest::StopRequest() {
  caught = 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { caught = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &before_[i]);
}

StopRequest::~StopRequest() {
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopRequest::signal() const { return caught; }

}  // namespace training
