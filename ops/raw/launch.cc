// Launches of raw kernels: from arguments to the op.
#include <algorithm>
#include <cstring>

#include <locus/core/autograd.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/raw/module.h>

namespace locus::raw {
namespace {

constexpr size_t kMostArguments = 256;

}  // namespace

// A launch as the op's attributes have it: everything but the tensors.
struct Packed {
  struct Argument {
    int tensor = -1;    // the op's input; -1: a value
    size_t offset = 0;  // of a value in `values`
  };
  const KernelFunction* function;
  LaunchShape shape;
  std::vector<Argument> arguments;
  std::vector<std::max_align_t> values;
  std::vector<size_t> targets;  // the inputs that are the first results
};

// A launch, from the first check to invoke().
class Function::Launch {
 public:
  Launch(const Function& f, const RawLaunch& launch, std::span<const RawArg> args)
      : f_(f), args_(args), shape_(shape_of(launch)) {
    check_shape(f.name, shape_);
    if (args.size() > kMostArguments)
      throw ValueError(f.name, ": ", args.size(), " arguments; expected at most ", kMostArguments);
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].tensor()) add_tensor(i);
    if (f.signed_) check_signature(f.name, f.signature_, args);
    context_ =
        refs_.empty() ? launch.context.value_or(current_context()) : refs_[0].tensor_->context();
    if (!refs_.empty() && launch.context && *launch.context != context_)
      throw ContextMismatch(f.name, ": the launch is on ", *launch.context, ", and argument ",
                            described(args, positions_[0]), " is not; expected tensors on ",
                            *launch.context, ", or a launch without a context");
    function_ = &f.on(context_);
    check_sizes(f.name, args, function_->attributes().parameters);
  }

  // Sets blocks for n threads.
  void cover(int64_t n) {
    shape_.block = {.x = function_->attributes().suggested_block};
    shape_.grid = {.x = (n - 1) / shape_.block.x + 1};
    check_shape(f_.name, shape_);
  }

  void enqueue() {
    check_shape(f_.name, shape_, *function_, context_);
    const auto packed = pack();
    std::vector<Ref> targets;
    for (const size_t i : packed->targets) targets.push_back(refs_[i]);
    // invoke() needs a result that is not empty.
    Tensor none;
    if (std::ranges::none_of(targets, [](const Ref& r) { return r.tensor_->size() > 0; })) {
      const int64_t one[] = {1};
      none = allocate(context_, make_meta(u8, one));
      targets.emplace_back(none);
    }
    const Attrs attrs{packed.get()};
    const AttrsOwner owner{packed};
    detail::invoke_into(f_.op_, refs_, AttrsView::of(attrs, owner), targets);
  }

 private:
  void add_tensor(size_t i) {
    const Tensor& t = *args_[i].tensor();
    detail::expect_tensor(f_.name, t, "argument ", i);
    if (!t.contiguous() && !args_[i].any_layout())
      throw ShapeError(f_.name, ": argument ", described(args_, i),
                       " has gaps or another order; expected a contiguous tensor; pass "
                       "contiguous(x), and copy back what the kernel writes; or any_layout(x), if "
                       "the kernel computes with the strides");
    if (autograd::is_recording() && needs_grad(t.impl()))
      throw Error(f_.name, ": argument ", described(args_, i),
                  " needs a gradient, and a kernel from source text has none; pass x.detach(), or "
                  "leave the autograd::Record scope");
    if (!refs_.empty() && t.context() != refs_[0].tensor_->context())
      throw ContextMismatch(f_.name, ": arguments live on different contexts: ",
                            described(args_, positions_[0]), " and ", described(args_, i),
                            "; move one first: x.as_in_context(", refs_[0].tensor_->context(), ')');
    refs_.emplace_back(t);
    positions_.push_back(i);
  }

  bool written(size_t i) const {
    return args_[i].written() && !(f_.signed_ && f_.signature_[i].constant);
  }

  std::shared_ptr<Packed> pack() const {
    auto packed = std::make_shared<Packed>();
    packed->function = function_;
    packed->shape = shape_;
    packed->arguments.resize(args_.size());
    for (size_t j = 0; j < refs_.size(); ++j) {
      packed->arguments[positions_[j]].tensor = static_cast<int>(j);
      // Tensors may share memory. One of them stands for the others.
      if (written(positions_[j]) && std::ranges::none_of(packed->targets, [&](size_t k) {
            return refs_[k].tensor_->shares_memory_with(*refs_[j].tensor_);
          }))
        packed->targets.push_back(j);
    }
    constexpr size_t kUnit = sizeof(std::max_align_t);
    for (size_t i = 0; i < args_.size(); ++i) {
      if (args_[i].tensor()) continue;
      const size_t at = packed->values.size();
      packed->arguments[i].offset = at * kUnit;
      packed->values.resize(at + (args_[i].bytes() + kUnit - 1) / kUnit);
      std::memcpy(&packed->values[at], args_[i].value(), args_[i].bytes());
    }
    return packed;
  }

  const Function& f_;
  const std::span<const RawArg> args_;
  LaunchShape shape_;
  std::vector<Ref> refs_;
  std::vector<size_t> positions_;  // of the tensors among the arguments
  Context context_;
  const KernelFunction* function_ = nullptr;
};

void Function::launch(const RawLaunch& launch, std::span<const RawArg> args) const {
  Launch(*this, launch, args).enqueue();
}

void Function::for_all(int64_t n, std::span<const RawArg> args, const RawLaunch& launch) const {
  if (n < 0) throw ValueError(name, ": for_all of ", n, " threads; expected 0 or more");
  for (const auto& [what, given] : {std::pair("grid", launch.grid), {"block", launch.block}})
    if (given.x != 1 || given.y != 1 || given.z != 1)
      throw ValueError(name, ": for_all with a ", what, " of (", given.x, ", ", given.y, ", ",
                       given.z, "); for_all chooses it: leave it out, or call the kernel itself");
  Launch all(*this, launch, args);
  if (n == 0) return;
  all.cover(n);
  all.enqueue();
}

DType infer(std::span<const Meta> in, const void* attrs, std::span<Meta> out) {
  const Packed& packed = *static_cast<const Attrs*>(attrs)->packed;
  for (size_t k = 0; k < out.size(); ++k) {
    const int64_t one[] = {1};
    out[k] = k < packed.targets.size() ? in[packed.targets[k]] : make_meta(u8, one);
  }
  return f32;
}

void run(const Call& call) {
  const Packed& packed = *call.attributes<Attrs>().packed;
  const auto* const values = reinterpret_cast<const std::byte*>(packed.values.data());
  const void* each[kMostArguments];
  for (size_t i = 0; i < packed.arguments.size(); ++i) {
    const auto [tensor, offset] = packed.arguments[i];
    each[i] = tensor < 0 ? static_cast<const void*>(values + offset) : &call.in[tensor].data;
  }
  packed.function->launch(call.stream, packed.shape,
                          std::span<const void* const>(each, packed.arguments.size()));
}

}  // namespace locus::raw
