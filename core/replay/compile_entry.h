// One recording of a compiled function: its key, its memory and its replays. Internal to
// compile.cc.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/memory/storage.h>
#include <locus/core/recompute.h>
#include <locus/core/replay/compile_gradient.h>
#include <locus/core/replay/recording.h>

namespace locus::compiled {

// The part of a key that does not describe inputs.
struct Mode {
  bool training = autograd::is_training(), graph = autograd::is_recording();
  bool recomputing = autograd::is_recomputing();
  Context current = current_context();
  std::optional<DType> amp = amp::dtype();
  uint32_t settings = capture::settings.load(std::memory_order_relaxed);
  friend bool operator==(const Mode&, const Mode&) = default;
};

// Before each run, inputs are copied to buffers, which the function uses. After it, results and
// written buffers are copied out.
class CompiledEntry : public std::enable_shared_from_this<CompiledEntry>, NonCopyable {
 public:
  using Function = std::function<Tensors(const Tensors&)>;

  // Runs f and records it. Throws if f cannot be replayed, or if check() refuses the inputs.
  CompiledEntry(const Function& f, const Tensors& in, const Mode& mode, Caller from);

  // The results of the recorded run. Call it once, after the constructor.
  Tensors first(const Tensors& in);
  Tensors replay(const Tensors& in, Caller from);

  bool fits(const Tensors& in, const Mode& mode) const;
  bool same_key(const CompiledEntry& other) const;
  // Whether gradients that the function asked about are new or summed as at recording.
  bool as_fresh() const;
  // Whether a parameter or a leaf changed so that replays would be wrong.
  bool stale() const;
  // Whether backward() of the last call may still come and read its memory.
  bool pending() const { return pending_.load(std::memory_order_acquire); }

  Replay& replay() { return *replay_; }
  Replay* gradient() { return gradient_ ? &gradient_->replay() : nullptr; }
  std::string text() const;  // its key
  // Held by backward(), which may be in another thread, and while calls are measured.
  Mutex& mutex() { return mutex_; }

 private:
  struct Input {
    View view;
    Context context;
    bool needs_grad;
    std::weak_ptr<GraphState> leaf;  // outside autograd::Record, if the input is one
    bool written = false;            // by the function
  };
  static Input input_of(const Tensor& t, const Mode& mode);
  static bool same_key(const Input& a, const Input& b);

  void finish(capture::Recording& r, Tensors out, Tensors given);
  void check(const Tensors& in) const;
  bool writes_captured(const Storage& s) const;
  void copy_out(const Tensors& in, const Tensors& out);
  Tensors linked(const Tensors& in, Tensors out);

  const Mode mode_;
  Mutex mutex_;
  Caller from_;
  std::vector<Input> inputs_;
  std::unique_ptr<Replay> replay_;
  Tensors buffers_, results_;  // the function's inputs and results
  std::vector<std::pair<std::shared_ptr<const uint64_t>, uint64_t>> generations_;
  std::vector<capture::Leaf> leaves_;
  std::vector<std::shared_ptr<GraphState>> written_;  // leaves whose gradients the function writes
  std::vector<std::shared_ptr<GraphState>> added_;
  std::vector<capture::Freshness> fresh_before_, fresh_after_;  // before the call, and after it
  std::unique_ptr<Gradient> gradient_;
  std::atomic<bool> pending_{false};
};

}  // namespace locus::compiled
