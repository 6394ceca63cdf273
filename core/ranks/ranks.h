// What joins the processes of a cluster (cluster.h), and what connects their devices directly.
// Internal to core and devices.
//
// Calls are those of all ranks, in one order; cluster::turns() lets one thread in at a time
// (rank_calls.h). Whatever takes `seconds` gives up after so many. DeviceError says what failed.
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

  // On rank 0 everyone's message, none of those that did not come in time; elsewhere nothing.
  virtual std::vector<std::optional<std::string>> gather(const std::string& mine,
                                                         double seconds) = 0;
  // Rank 0's message; none when it did not come in time.
  virtual std::optional<std::string> from_root(const std::string& mine, double seconds) = 0;

  // In place, on the host. mean is of f32 and f64; f16, bf16 and bool are not taken.
  virtual void all_reduce(void* data, size_t elements, DType dtype, ReduceOp op,
                          double seconds) = 0;
  virtual void broadcast(void* data, size_t bytes, int root, double seconds) = 0;
  // Rank sources[i]'s `mine` into `theirs` of rank i, which is apart; where it is -1, nothing.
  virtual void send_recv(const void* mine, void* theirs, size_t bytes,
                         const std::vector<int>& sources, double seconds) = 0;

  virtual void leave() = 0;  // the last call
  // Prints why, and ends every rank's process. Any thread, beside other calls, too.
  [[noreturn]] virtual void end_all(const std::string& why, int status) noexcept = 0;
};

// The processes that one launch started; null where this one is alone. Throws Error where they
// cannot be joined; ends this process, saying so, where the others did not come in time.
using JoinRanks = std::unique_ptr<Ranks> (*)(double seconds);
void set_ranks(JoinRanks join);  // while the program starts

// One context of each rank; kept as long as the process. What is enqueued on s is in place, of
// row-major views, but for send_recv(), which is of data[0] into data[1].
class RankLink {
 public:
  virtual ~RankLink() = default;
  virtual void all_reduce(std::span<const View> data, ReduceOp op, StreamView s) = 0;
  virtual void broadcast(std::span<const View> data, int root, StreamView s) = 0;
  virtual void send_recv(std::span<const View> data, const std::vector<int>& sources,
                         StreamView s) = 0;
};

// Connects c with one context of each other rank, which all call it. What fails later, while the
// device works, ends every rank by ranks.end_all().
using MakeRankLink = std::unique_ptr<RankLink> (*)(Ranks& ranks, Context c, double seconds);
void set_rank_links(DeviceType type, MakeRankLink make);  // while the program starts

// What tells GPU gpu(index) of this process from all others, of other hosts, too, whatever number
// it has for the process that asks. Null: the host's name and the number, for emulated ones.
using GpuIdentity = std::string (*)(int index);
void set_gpu_identity(GpuIdentity f);

}  // namespace locus
