#include "common/status.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

namespace examples {

namespace {

constexpr const char* kWipe = "\r\x1b[K";

}  // namespace

bool draws_on(int file) {
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (std::getenv(variable) != nullptr) return false;
  return isatty(file) != 0;
}

Status::Status() : draws_(draws_on(STDERR_FILENO)) {}

void Status::stage(const std::string& text) {
  if (draws_) return show(text);
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void Status::show(const std::string& text) {
  if (!draws_) return;
  drawn_ = true;
  fmt::print(stderr, "{}{}", kWipe, text);
  std::fflush(stderr);
}

void Status::clear() {
  if (drawn_) fmt::print(stderr, "{}", kWipe);
  drawn_ = false;
  std::fflush(stderr);
}

}  // namespace examples
