// Communication between the processes of a cluster (cluster.h), and direct links between their
// devices. Internal to core and devices.
//
// All ranks make the same calls in the same order. Callers hold cluster::turns() (rank_calls.h).
// Calls with `seconds` give up after that time. Failures throw DeviceError.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <locus/core/group.h>
#include <locus/core/kernel.h>

namespace locus {

class Ranks {
 public:
  static constexpr size_t kLongest = 1000;  // of a message, in bytes
  static constexpr double kForever = std::numeric_limits<double>::infinity();

  struct RankInfo {
    int rank = 0, size = 1, local_rank = 0, local_size = 1;
  };

  virtual ~Ranks() = default;
  virtual RankInfo info() const = 0;

  // On rank 0: each rank's message, nullopt if it did not arrive in time. Elsewhere: empty.
  virtual std::vector<std::optional<std::string>> gather(const std::string& mine,
                                                         double seconds) = 0;
  // Rank 0's message; nullopt if it did not arrive in time.
  virtual std::optional<std::string> from_root(const std::string& mine, double seconds) = 0;

  // In place, on the host. mean: only f32 and f64. Not for f16, bf16 and bool.
  virtual void all_reduce(void* data, size_t elements, DType dtype, ReduceOp op,
                          double seconds) = 0;
  virtual void broadcast(void* data, size_t bytes, int root, double seconds) = 0;
  // Copies `mine` of rank sources[i] to `theirs` of rank i, unless sources[i] is -1. The
  // buffers do not overlap.
  virtual void send_recv(const void* mine, void* theirs, size_t bytes,
                         const std::vector<int>& sources, double seconds) = 0;

  virtual void leave() = 0;  // the last call
  // Prints why, and ends every rank's process. Threads: any, also during other calls.
  [[noreturn]] virtual void end_all(const std::string& why, int status) noexcept = 0;
};

// Joins the processes of one launch; null if this process is alone. Throws Error if they cannot be
// joined. If others are late, prints a message and ends this process.
using JoinRanks = std::unique_ptr<Ranks> (*)(double seconds);
void set_ranks(JoinRanks join);  // while the program starts

// Connects one context of each rank; kept as long as the process. Calls enqueue on s, and work in
// place on row-major views. send_recv() copies data[0] to data[1].
class RankLink {
 public:
  virtual ~RankLink() = default;
  virtual void all_reduce(std::span<const View> data, ReduceOp op, StreamView s) = 0;
  virtual void broadcast(std::span<const View> data, int root, StreamView s) = 0;
  virtual void send_recv(std::span<const View> data, const std::vector<int>& sources,
                         StreamView s) = 0;
};

// Connects c with one context of each other rank. All ranks call it. If work on the device fails
// later, ranks.end_all() ends every rank.
using MakeRankLink = std::unique_ptr<RankLink> (*)(Ranks& ranks, Context c, double seconds);
void set_rank_links(DeviceType type, MakeRankLink make);  // while the program starts

// Identifies gpu(index) of this process among the GPUs of all hosts, whatever its index in other
// processes. Null: the host's name and the index, for emulated GPUs.
using GpuIdentity = std::string (*)(int index);
void set_gpu_identity(GpuIdentity f);

}  // namespace locus
