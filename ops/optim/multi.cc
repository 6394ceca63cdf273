#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>
#include <locus/ops/optim/multi_kernel.h>

namespace locus {
namespace {

// The tensors' dtype; DTypeError if several.
DType common(std::span<const Meta> in) {
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].dtype != in[0].dtype)
      throw DTypeError("tensor ", i, " is ", name(in[i].dtype), ", tensor 0 ", name(in[0].dtype),
                       "; expected one dtype in a call");
  return in[0].dtype;
}

DType infer_each(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = make_meta(f64, Shape{in.size()});
  return common(in);
}
DType infer_all(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = make_meta(f64, Shape{1});
  return common(in);
}
DType infer_clip(std::span<const Meta> in, const MultiClipAttrs&, std::span<Meta> out) {
  if (in.size() != out.size() && in.size() != out.size() + 1)
    throw ShapeError("expected arrays that are written in place, and at most their norm");
  const std::span<const Meta> arrays = in.first(out.size());
  if (in.size() > out.size() && (in.back().dtype != f64 || in.back().size() != 1))
    throw ShapeError("expected a norm that is one f64, got ", Shape(in.back()), " ",
                     name(in.back().dtype));
  std::copy(arrays.begin(), arrays.end(), out.begin());
  return common(arrays);
}

Samples samples(Context c, DType d) {
  Samples all;
  const auto add = [&](std::initializer_list<Shape> shapes) {
    Tensors in;
    for (const Shape& s : shapes)
      in.push_back(sample_values(c, d, s, -2, 2, static_cast<int>(in.size())));
    all.emplace_back(std::move(in));
    all.back().differentiable = false;
  };
  add({{3}});
  add({{5, 7}, {0}, {}, {33, 129}});
  return all;
}

std::vector<Ref> refs(const Tensors& arrays) { return {arrays.begin(), arrays.end()}; }
void clip(const char* who, const char* option, double value, const Tensors& arrays,
          const Tensor* norm, const MultiClipAttrs& attrs) {
  static const OpRef<MultiClipAttrs> op("multi_clip");
  if (!(value >= 0)) throw ValueError(who, ": ", option, " ", value, "; expected a limit >= 0");
  if (arrays.empty()) return;
  std::vector<Ref> in = refs(arrays);
  const std::vector<Ref> out = in;
  if (norm) in.emplace_back(*norm);
  detail::called_as(who, "multi_clip", [&] {
    invoke_into(op, std::span<const Ref>(in), std::span<const Ref>(out), attrs);
  });
}
void need_some(const char* who, const Tensors& arrays) {
  if (arrays.empty()) throw ValueError(who, ": no arrays; expected at least one");
}

}  // namespace

Tensor multi_sum_sq(const Tensors& arrays) {
  static const OpRef<> op("multi_sum_sq");
  need_some("multi_sum_sq", arrays);
  return invoke(op, std::span<const Ref>(refs(arrays)));
}

Tensor multi_all_finite(const Tensors& arrays) {
  static const OpRef<> op("multi_all_finite");
  need_some("multi_all_finite", arrays);
  return invoke(op, std::span<const Ref>(refs(arrays)));
}

void multi_clip_norm(const Tensors& arrays, const Tensor& norm, double max_norm) {
  clip("multi_clip_norm", "max_norm", max_norm, arrays, &norm, {.max_norm = max_norm});
}
void multi_clip(const Tensors& arrays, double limit) {
  clip("multi_clip", "limit", limit, arrays, nullptr, {.limit = limit});
}

void register_optim_multi() {
  constexpr const char* kWhy = "of gradients, outside the graph";
  OpDef("multi_sum_sq", {"array"})
      .inputs(1, Op::kAny)
      .infer<&infer_each>()
      .no_gradient(kWhy)
      .samples<&samples>();
  OpDef("multi_all_finite", {"array"})
      .inputs(1, Op::kAny)
      .infer<&infer_all>()
      .no_gradient(kWhy)
      .samples<&samples>();
  OpDef<MultiClipAttrs>("multi_clip", {"array"})
      .inputs(1, Op::kAny)
      .outputs(Op::kAny)
      .infer<&infer_clip>()
      .in_place()
      .no_gradient(kWhy)
      .no_samples("updates in place: tests/train/clip_test.cc");
}

}  // namespace locus
