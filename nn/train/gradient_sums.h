// The sums of replicas' gradients: what a Trainer adds up over contexts, all behind backward() or,
// on request, in buckets while it still runs. Internal to nn.
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

// Whether those of a parameter are all new, and are to be summed. Error where they are sums
// already, but backward() has written some of them since.
bool to_be_summed(const std::string& name, const Tensors& replicas);

// Made once; its gradients are found from the replicas each time. Hooks that it leaves on replicas
// find that it is gone; a newer one puts its own in their place. Threads: any.
class GradientSums : public std::enable_shared_from_this<GradientSums>, NonCopyable {
 public:
  struct Parameter {
    std::string name;
    Tensors replicas;      // several
    int owner = -1;        // the one that is to have the sum, of all parameters or of none; -1: all
    bool release = false;  // the others' gradients, behind it
  };
  // In the order of the layers. Those on the same contexts are summed together.
  explicit GradientSums(std::vector<Parameter> parameters);
  ~GradientSums();

  // Whether those would be the same.
  bool are_of(const std::vector<Parameter>& parameters) const;

  // From now on a bucket is summed as soon as backward() has written its gradients on all contexts,
  // on streams of its own. Where one is to be written again before next(), or a sum fails,
  // backward() throws, and so does check() from then on up to next(): no update goes by these.
  // Again where a gradient was attached anew, which has no hook.
  void overlap(Caller from);
  // What finish() would refuse, while all gradients are as they were.
  void expect_ready();
  // Sums the new gradients of parameters that have them on all contexts, but those that are summed.
  // Where it throws, some are. behind(i), where there is one: as all_reduce_many() has it, for the
  // contexts of group().
  void finish(const std::function<void(int)>& behind, Caller from);
  // Of all parameters; null where they are on others.
  const Group* group() const { return all_.size() == 1 ? &all_[0].group : nullptr; }
  void check();
  // An update took the gradients, or they are discarded.
  void next();

 private:
  // About this many bytes at once: an all-reduce of them is near the links' speed.
  static constexpr size_t kBucket = size_t{4} << 20;
  struct GradientGroup {  // on the same contexts, the last parameter first, as backward() comes to
                          // them
    Group group;
    std::vector<const Parameter*> parameters = {};
    std::deque<Stream> streams = {};
  };
  struct Bucket {
    GradientGroup* all;
    size_t begin, end;                 // of its parameters
    std::vector<bool> there = {};      // of each parameter's replicas in turn
    std::vector<size_t> missing = {};  // on each context
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
  std::string refused_ LOCUS_GUARDED_BY(mutex_);  // the Error, where there was one
};

}  // namespace locus::nn
