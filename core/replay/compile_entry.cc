#include <locus/core/replay/compile_entry.h>

#include <algorithm>

#include <locus/core/accumulate.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/error.h>
#include <locus/core/replay/compile_copy.h>
#include <locus/core/tape/tape.h>

namespace locus::compiled {
namespace {

bool overlap(const View& a, const View& b) {
  if (a.meta.size() == 0 || b.meta.size() == 0) return false;
  const ByteRange x = byte_range(a), y = byte_range(b);
  return x.begin < y.end && y.begin < x.end;
}

bool any_of(const std::vector<std::shared_ptr<GraphState>>& leaves, const Storage& gradient) {
  return std::ranges::any_of(
      leaves, [&](const auto& leaf) { return leaf->grad.impl().storage.get() == &gradient; });
}

}  // namespace

CompiledEntry::CompiledEntry(const Function& f, const Tensors& in, const Mode& mode, Caller from)
    : mode_(mode), from_(from) {
  capture::Recording recording(from);
  recording.graph = mode_.graph;
  Tensors given;
  for (size_t i = 0; i < in.size(); ++i) {
    inputs_.push_back(input_of(in[i], mode_));
    buffers_.push_back(same_strides(in[i]));
    recording.replay->filled(*buffers_[i].impl().storage);
    given.push_back(alias(buffers_[i], buffers_[i].impl().view));
    std::shared_ptr<GraphState>& graph = given[i].impl().graph;
    if (!mode_.graph) {
      graph = in[i].impl().graph;
    } else if (inputs_[i].needs_grad) {
      graph = std::make_shared<GraphState>();
      graph->req = GradReq::write;
    }
  }
  copy_all(in, buffers_);
  Tensors out = f(given);
  finish(recording, std::move(out), std::move(given));
  check(in);
  for (const auto& leaf : written_) leaf->placed = true;  // later writes use the same memory
}

CompiledEntry::Input CompiledEntry::input_of(const Tensor& t, const Mode& mode) {
  const TensorImpl& impl = t.impl();
  const bool needed = needs_grad(impl);
  const bool leaf = needed && !mode.graph && !impl.graph->node;
  return {impl.view, impl.context, needed, leaf ? impl.graph : nullptr};
}

bool CompiledEntry::same_key(const Input& a, const Input& b) {
  return a.context == b.context && same_layout(a.view, b.view) && a.needs_grad == b.needs_grad &&
         !a.leaf.owner_before(b.leaf) && !b.leaf.owner_before(a.leaf);
}

bool CompiledEntry::fits(const Tensors& in, const Mode& mode) const {
  if (in.size() != inputs_.size() || !(mode == mode_)) return false;
  for (size_t i = 0; i < in.size(); ++i)
    if (!same_key(inputs_[i], input_of(in[i], mode))) return false;
  return true;
}

bool CompiledEntry::same_key(const CompiledEntry& other) const {
  const auto same_fresh = [](const auto& a, const auto& b) {
    return a.leaf == b.leaf && a.fresh == b.fresh;
  };
  return other.mode_ == mode_ &&
         std::ranges::equal(inputs_, other.inputs_,
                            [](const Input& a, const Input& b) { return same_key(a, b); }) &&
         std::ranges::equal(fresh_before_, other.fresh_before_, same_fresh);
}

bool CompiledEntry::as_fresh() const {
  return std::ranges::all_of(fresh_before_, [](const auto& a) { return a.leaf->fresh == a.fresh; });
}

bool CompiledEntry::stale() const {
  return std::ranges::any_of(generations_, [](const auto& g) { return *g.first != g.second; }) ||
         std::ranges::any_of(leaves_,
                             [](const auto& l) { return l.tensor.impl().graph != l.state; });
}

std::string CompiledEntry::text() const {
  const std::string inputs = listed(inputs_, [](const Input& i) {
    return text_of(name(i.view.meta.dtype), Shape(i.view.meta), " on ", i.context,
                   i.needs_grad ? " that needs a gradient" : "");
  });
  return text_of(inputs.empty() ? "no inputs" : inputs, mode_.training ? ", training" : "",
                 mode_.graph ? ", in a graph" : "");
}

void CompiledEntry::finish(capture::Recording& r, Tensors out, Tensors given) {
  for (size_t i = 0; i < out.size(); ++i) {
    detail::expect_tensor("Compiled", out[i], "result ", i, " of the function called at ",
                          to_string(from_));
    results_.push_back(alias(out[i], out[i].impl().view));
  }
  std::optional<capture::Recording> backward;
  if (mode_.graph) {
    for (const Tensor& t : out)
      if (const auto& graph = t.impl().graph; graph && !graph->node) capture::depends_on(t);
    backward.emplace(&r);
    gradient_ = std::make_unique<Gradient>(r, given, out, mutex_);
    if (gradient_->empty()) gradient_ = nullptr;
  }
  out.clear();  // frees the function's graph
  given.clear();
  for (const auto& leaf : r.written) fresh_after_.push_back({leaf, leaf->fresh});
  for (const auto& [leaf, before] : r.freshness) fresh_after_.push_back({leaf, leaf->fresh});
  fresh_before_ = std::move(r.freshness);
  written_ = std::move(r.written);
  added_ = std::move(r.added);
  leaves_ = std::move(r.leaves);
  if (gradient_) gradient_->finish(r, *backward);
  backward.reset();
  r.end();
  replay_ = std::move(r.replay);
  for (auto& g : r.generations) generations_.emplace_back(g, *g);
  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs_[i].written = replay_->writes(*buffers_[i].impl().storage);
}

// Whether the function writes this memory of the program other than as an input.
bool CompiledEntry::writes_captured(const Storage& s) const {
  return replay_->writes(s) && (!replay_->owns(s) || any_of(written_, s));
}

void CompiledEntry::check(const Tensors& in) const {
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorImpl& t = in[i].impl();
    const bool written = inputs_[i].written;
    const auto refuse = [&](const auto&... why) {
      throw ValueError("Compiled: the function called at ", to_string(from_), " writes input ", i,
                       ", ", describe(in[i]), ", ", why...);
    };
    if (written && !dense(t.view))
      refuse("which has gaps or a negative stride; pass a dense copy, and copy that back");
    const auto has_memory = [&](const Tensor& result) {
      return result.impl().storage == t.storage;
    };
    if (written ? replay_->uses(*t.storage) || std::ranges::any_of(results_, has_memory)
                : writes_captured(*t.storage))
      refuse("and has captured its memory as well; pass the tensor or capture it, not both");
    for (size_t k = 0; written && k < in.size(); ++k)
      if (k != i && overlap(t.view, in[k].impl().view))
        refuse("whose memory is also that of input ", k, ", ", describe(in[k]),
               "; pass a copy of one of them: x.copyto(x.context())");
  }
}

Tensors CompiledEntry::first(const Tensors& in) {
  Tensors out = new_like(results_);
  copy_out(in, out);
  return linked(in, std::move(out));
}

Tensors CompiledEntry::replay(const Tensors& in, Caller from) {
  for (const auto& leaf : added_) autograd::check_adds_to(*leaf);
  from_ = from;
  check(in);
  Tensors out = new_like(results_);  // first: may throw OutOfMemory
  copy_all(in, buffers_);
  FirstFailure failure;
  failure.run([&] { replay_->replay(from); });
  failure.run([&] { copy_out(in, out); });  // also after a failure
  failure.rethrow();
  for (const capture::Freshness& f : fresh_after_) f.leaf->fresh = f.fresh;
  return linked(in, std::move(out));
}

void CompiledEntry::copy_out(const Tensors& in, const Tensors& out) {
  Copies copies(out.size() + in.size());
  for (size_t i = 0; i < out.size(); ++i) copies.add(results_[i], out[i]);
  for (size_t i = 0; i < in.size(); ++i)
    if (inputs_[i].written) copies.add(buffers_[i], in[i]);
  copies.run();
}

// Puts the results in a graph, if there is a gradient.
Tensors CompiledEntry::linked(const Tensors& in, Tensors out) {
  if (!gradient_) return out;
  pending_.store(true, std::memory_order_relaxed);
  std::shared_ptr<const void> call(this, [self = shared_from_this()](const void*) {
    self->pending_.store(false, std::memory_order_release);
  });
  gradient_->link(in, out, {std::move(call)}, from_);
  return out;
}

}  // namespace locus::compiled
