// Sums replicas' gradients over contexts for a Trainer: after backward() or, with overlap(), in
// buckets during backward(). Internal to nn.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/caller.h>
#include <locus/core/group.h>
#include <locus/core/stream.h>
#include <locus/core/tensor.h>

namespace locus::nn {

// Whether a parameter's gradients are to be summed: all are new, none is a sum. Error if some are
// sums and backward() has written others since.
bool to_be_summed(const std::string& name, const Tensors& replicas);

// Finds gradients from the replicas at each call. Hooks on replicas hold weak references; a newer
// object replaces them. Threads: any.
class GradientSums : public std::enable_shared_from_this<GradientSums>, NonCopyable {
 public:
  struct Parameter {
    std::string name;
    Tensors replicas;      // at least two
    int owner = -1;        // index of the replica that receives the sum, for all parameters or
                           // none; -1: all
    bool release = false;  // release the others' gradients after the sum
  };
  // In the order of layers. Parameters on the same contexts are summed together.
  explicit GradientSums(std::vector<Parameter> parameters);
  ~GradientSums();

  // Whether an object for `parameters` would be the same.
  bool are_of(const std::vector<Parameter>& parameters) const;

  // From now on a bucket is summed, on separate streams, once backward() has written its gradients
  // on all contexts. If a gradient would be written again before next(), or a sum fails, backward()
  // throws. Then check() throws until next(), so no update uses these gradients. Call overlap()
  // again for gradients attached anew, which have no hook.
  void overlap(Caller from);
  // Throws errors of finish() before any gradient changes.
  void expect_ready();
  // Sums gradients that are new on all contexts and not summed yet. If it throws, some are sums.
  // behind(i), if given, is called as by all_reduce_many(), for the contexts of group().
  void finish(const std::function<void(int)>& behind, Caller from);
  // The contexts of all parameters; null if they differ.
  const Group* group() const { return all_.size() == 1 ? &all_[0].group : nullptr; }
  void check();
  // Call after an update, or after discarding gradients.
  void next();

 private:
  // Bytes per bucket. An all-reduce of this size is near the links' speed.
  static constexpr size_t kBucket = size_t{4} << 20;
  struct GradientGroup {  // on the same contexts, the last first, as in backward()
    Group group;
    std::vector<const Parameter*> parameters = {};
    std::deque<Stream> streams = {};
  };
  struct Bucket {
    GradientGroup* all;
    size_t begin, end;                 // its parameters
    std::vector<bool> there = {};      // whether written, by parameter and replica
    std::vector<size_t> missing = {};  // not yet written, by context
  };

  std::vector<Bucket> buckets(GradientGroup& all) const;
  void add_up(const Bucket& bucket, bool beside, const std::function<void(int)>& behind,
              Caller from) const;
  void expect_first(size_t bucket, size_t at);
  void arrived(size_t bucket, size_t at, Caller from);
  static std::string twice(const Parameter& p);
  void reset() LOCUS_REQUIRES(mutex_);

  const std::vector<Parameter> parameters_;
  std::deque<GradientGroup> all_;
  bool overlaps_ = false;
  Mutex mutex_;
  std::vector<Bucket> waiting_ LOCUS_GUARDED_BY(mutex_);
  std::string refused_ LOCUS_GUARDED_BY(mutex_);  // text of the Error, if any
};

}  // namespace locus::nn
