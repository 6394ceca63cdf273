// Every field of an op's attributes takes two values or more over the op's samples, so the walks
// find a kernel or gradient that ignores or rounds it.
#include <algorithm>
#include <cstring>
#include <map>
#include <typeindex>

#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/create/create_kernel.h>
#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/elementwise/special_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>
#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/index/index_kernel.h>
#include <locus/ops/join/join_kernel.h>
#include <locus/ops/linalg/least_squares.h>
#include <locus/ops/linalg/linalg_kernel.h>
#include <locus/ops/linalg/qr_kernel.h>
#include <locus/ops/linalg/spectral_kernel.h>
#include <locus/ops/matmul_attrs.h>
#include <locus/ops/norm/norm_kernel.h>
#include <locus/ops/optim_numbers.h>
#include <locus/ops/order/order_kernel.h>
#include <locus/ops/pooling/pooling_kernel.h>
#include <locus/ops/random/random_kernel.h>
#include <locus/ops/rearrange/rearrange_kernel.h>
#include <locus/ops/rearrange/resample_kernel.h>
#include <locus/ops/reduce/reduce_walk.h>
#include <locus/ops/reduce/reductions.h>
#include <locus/ops/scan/scan_kernel.h>
#include <locus/ops/search/search_kernel.h>
#include <locus/ops/softmax/softmax_kernel.h>
#include <locus/ops/statistics/nan.h>
#include <locus/ops/view/view_kernel.h>
#include "tests/registry/fields.h"
#include "tests/registry/walk.h"
#include "tests/user_kernels/forms_ops.h"

namespace locus::test {
namespace {

using Known = std::map<std::type_index, std::vector<Field>>;

template <class A, size_t kBases, auto... Members>
void add(Known& all, std::vector<std::string> names) {
  all[typeid(A)] = fields<A, kBases, Members...>(std::move(names));
}
template <class... R>
void add_reductions(Known& all, formula::List<R...>) {
  const auto add_one = [&all]<class Each>(Each) {
    using A = ReduceBy<Each>;
    add<A, 1, &A::axes, &A::keepdims, &A::how>(all, {"axes", "keepdims", "how"});
    if (std::is_empty_v<Each> || std::is_same_v<Each, reduction::Sum>)
      all[typeid(A)].pop_back();  // set by kernels alone
  };
  (add_one(R()), ...);
}

// The numbers at the beginning of an optimizer's attributes.
template <class N, auto... Members>
void add_numbers(Known& all, std::vector<std::string> names) {
  for (const char* each : {"lr", "wd", "rescale_grad", "clip_gradient"}) names.emplace_back(each);
  add<N, 0, Members..., &N::lr, &N::wd, &N::rescale_grad, &N::clip_gradient>(all, names);
  static_assert(std::is_standard_layout_v<Live<N>>);
  all[typeid(Live<N>)] = all[typeid(N)];
}
void add_optimizers(Known& all) {
  add_numbers<SGDUpdate, &SGDUpdate::momentum>(all, {"momentum"});
  add_numbers<AdamUpdate, &AdamUpdate::beta1, &AdamUpdate::beta2, &AdamUpdate::epsilon>(
      all, {"beta1", "beta2", "epsilon"});
  add_numbers<AdamWUpdate, &AdamWUpdate::eta, &AdamWUpdate::beta1, &AdamWUpdate::beta2,
              &AdamWUpdate::epsilon>(all, {"eta", "beta1", "beta2", "epsilon"});
  using RMSProp = RMSPropUpdate;
  add_numbers<RMSProp, &RMSProp::gamma1, &RMSProp::gamma2, &RMSProp::epsilon,
              &RMSProp::clip_weights>(all, {"gamma1", "gamma2", "epsilon", "clip_weights"});
  add_numbers<AdaGradUpdate, &AdaGradUpdate::epsilon>(all, {"epsilon"});
  add_numbers<AdaDeltaUpdate, &AdaDeltaUpdate::rho, &AdaDeltaUpdate::epsilon>(all,
                                                                              {"rho", "epsilon"});
  using Nadam = NadamUpdate;
  add_numbers<Nadam, &Nadam::beta1, &Nadam::beta2, &Nadam::epsilon, &Nadam::momentum,
              &Nadam::next_momentum, &Nadam::schedule, &Nadam::correction2>(
      all, {"beta1", "beta2", "epsilon", "momentum", "next_momentum", "schedule", "correction2"});
  add_numbers<FtrlUpdate, &FtrlUpdate::lamda1, &FtrlUpdate::beta>(all, {"lamda1", "beta"});
  add_numbers<SignumUpdate, &SignumUpdate::momentum, &SignumUpdate::wd_lh>(all,
                                                                           {"momentum", "wd_lh"});
  add_numbers<LionUpdate, &LionUpdate::beta1, &LionUpdate::beta2>(all, {"beta1", "beta2"});
  using Lamb = LambUpdate;
  add_numbers<Lamb, &Lamb::beta1, &Lamb::beta2, &Lamb::epsilon, &Lamb::correction1,
              &Lamb::correction2, &Lamb::lower_bound, &Lamb::upper_bound>(
      all,
      {"beta1", "beta2", "epsilon", "correction1", "correction2", "lower_bound", "upper_bound"});
  add_numbers<LarsUpdate, &LarsUpdate::momentum, &LarsUpdate::eta, &LarsUpdate::epsilon>(
      all, {"momentum", "eta", "epsilon"});
}

void add_rearrangements(Known& all) {
  add<Pad, 1, &Pad::before, &Pad::after, &Pad::value, &Pad::rule>(
      all, {"before", "after", "value", "rule"});
  add<Roll, 1, &Roll::shift>(all, {"shift"});
  add<Triangle, 1, &Triangle::k, &Triangle::upper>(all, {"k", "upper"});
  using Diagonal = DiagonalAttrs;
  add<Diagonal, 0, &Diagonal::offset, &Diagonal::row, &Diagonal::column>(
      all, {"offset", "row", "column"});
  add<EmbedDiagonal, 0, &EmbedDiagonal::diagonal, &EmbedDiagonal::base>(all, {"diagonal", "base"});
  add<Windows, 1, &Windows::kernel, &Windows::stride, &Windows::dilate, &Windows::pad>(
      all, {"kernel", "stride", "dilate", "pad"});
  add<Columns, 1, &Columns::kernel, &Columns::stride, &Columns::dilate, &Columns::pad,
      &Columns::size>(all, {"kernel", "stride", "dilate", "pad", "size"});
  add<Nearest, 1, &Nearest::size>(all, {"size"});
  add<PadGrad, 0, &PadGrad::before, &PadGrad::length, &PadGrad::axis, &PadGrad::rule>(
      all, {"before", "length", "axis", "rule"});
  add<NearestGrad, 0, &NearestGrad::length, &NearestGrad::axis>(all, {"length", "axis"});
  add<Linear, 0, &Linear::length, &Linear::axis, &Linear::align_corners>(
      all, {"length", "axis", "align_corners"});
  add<LinearGrad, 1, &LinearGrad::length, &LinearGrad::axis, &LinearGrad::align_corners>(
      all, {"length", "axis", "align_corners"});
}

Known known() {
  namespace f = formula;
  Known all;
  using Binary = BinaryAttrs;
  add<Binary, 0, &Binary::scalar, &Binary::scalar_first>(all, {"scalar", "scalar_first"});
  add<TernaryAttrs, 0, &TernaryAttrs::x, &TernaryAttrs::y, &TernaryAttrs::x_scalar,
      &TernaryAttrs::y_scalar, &TernaryAttrs::dtype>(all,
                                                     {"x", "y", "x_scalar", "y_scalar", "dtype"});
  add<f::LeakyRelu, 1, &f::LeakyRelu::slope>(all, {"slope"});
  add<f::Silu, 1, &f::Silu::beta>(all, {"beta"});
  using SiluGrad = f::WithNumber<f::SiluGrad>;
  add<SiluGrad, 1, &SiluGrad::scalar, &SiluGrad::scalar_first, &SiluGrad::formula>(
      all, {"scalar", "scalar_first", "formula"});
  add<f::Elu, 1, &f::Elu::alpha>(all, {"alpha"});
  add<f::HardSigmoid, 1, &f::HardSigmoid::alpha, &f::HardSigmoid::beta>(all, {"alpha", "beta"});
  add<f::SmoothL1, 1, &f::SmoothL1::scalar>(all, {"scalar"});
  add<f::Clip, 1, &f::Clip::a_min, &f::Clip::a_max>(all, {"a_min", "a_max"});
  add<f::Softcap, 1, &f::Softcap::c>(all, {"c"});
  add<f::Around, 1, &f::Around::scale, &f::Around::step>(all, {"scale", "step"});
  using Replaced = f::NanToNum;
  add<Replaced, 1, &Replaced::nan, &Replaced::posinf, &Replaced::neginf>(
      all, {"nan", "posinf", "neginf"});
  add<f::Polygamma, 1, &f::Polygamma::n>(all, {"n"});
  using SincGrad = f::WithNumber<f::SincGrad>;
  add<SincGrad, 1, &SincGrad::scalar, &SincGrad::scalar_first, &SincGrad::formula>(
      all, {"scalar", "scalar_first", "formula"});
  add<Leak, 1, &Leak::slope>(all, {"slope"});
  using OwnAxpby = f::WithNumber<Axpby>;
  add<OwnAxpby, 1, &OwnAxpby::scalar, &OwnAxpby::scalar_first, &OwnAxpby::formula>(
      all, {"scalar", "scalar_first", "formula"});
  {
    using namespace reduction;
    add_reductions(all, Sums() + Extremes() + Positions() + Compound() + NanReductions() +
                            Counts() + List<SumAbs>());
  }
  add<SumToAttrs, 0, &SumToAttrs::target>(all, {"target"});
  add<SoftmaxAttrs, 0, &SoftmaxAttrs::axis, &SoftmaxAttrs::temperature>(all,
                                                                        {"axis", "temperature"});
  add<ScanAttrs, 0, &ScanAttrs::axis>(all, {"axis"});
  add<ExtremeAttrs, 0, &ExtremeAttrs::axis, &ExtremeAttrs::smallest>(all, {"axis", "smallest"});
  add<SearchAttrs, 0, &SearchAttrs::right>(all, {"right"});
  add<IsinAttrs, 0, &IsinAttrs::invert>(all, {"invert"});
  add<BincountAttrs, 0, &BincountAttrs::bins>(all, {"bins"});
  add<HistogramAttrs, 0, &HistogramAttrs::uniform>(all, {"uniform"});
  add<RunAttrs, 0, &RunAttrs::equal_nan>(all, {"equal_nan"});
  using Norm = NormAttrs;
  add<Norm, 0, &Norm::axis, &Norm::groups, &Norm::epsilon>(all, {"axis", "groups", "epsilon"});
  using NormGrad = NormGradAttrs;
  add<NormGrad, 1, &NormGrad::axis, &NormGrad::groups, &NormGrad::epsilon, &NormGrad::data,
      &NormGrad::gamma, &NormGrad::beta, &NormGrad::given>(
      all, {"axis", "groups", "epsilon", "data", "gamma", "beta", "given"});
  using Batch = BatchNormAttrs;
  add<Batch, 1, &Batch::axis, &Batch::groups, &Batch::epsilon, &Batch::momentum>(
      all, {"axis", "groups", "epsilon", "momentum"});
  add<MatmulAttrs, 0, &MatmulAttrs::transpose_a, &MatmulAttrs::transpose_b>(
      all, {"transpose_a", "transpose_b"});
  add<SolveAttrs, 0, &SolveAttrs::transpose>(all, {"transpose"});
  using Triangular = TriangularAttrs;
  add<Triangular, 0, &Triangular::upper, &Triangular::transpose, &Triangular::unit_diagonal>(
      all, {"upper", "transpose", "unit_diagonal"});
  add<DenseAttrs, 0, &DenseAttrs::activation>(all, {"activation"});
  using DenseBack = DenseBackwardAttrs;
  add<DenseBack, 0, &DenseBack::relu, &DenseBack::data, &DenseBack::weight, &DenseBack::bias>(
      all, {"relu", "data", "weight", "bias"});
  using Conv = ConvolutionAttrs;
  add<Conv, 0, &Conv::stride, &Conv::padding, &Conv::dilation, &Conv::groups, &Conv::size,
      &Conv::channels_last, &Conv::activation>(
      all, {"stride", "padding", "dilation", "groups", "size", "channels_last", "activation"});
  using ConvBack = ConvolutionBackwardAttrs;
  add<ConvBack, 0, &ConvBack::convolution, &ConvBack::data, &ConvBack::weight, &ConvBack::bias>(
      all, {"convolution", "data", "weight", "bias"});
  using Pool = PoolingAttrs;
  add<Pool, 0, &Pool::window, &Pool::stride, &Pool::padding, &Pool::size, &Pool::result,
      &Pool::channels_last, &Pool::ceil_mode, &Pool::count_include_pad, &Pool::adaptive>(
      all, {"window", "stride", "padding", "size", "result", "channels_last", "ceil_mode",
            "count_include_pad", "adaptive"});
  add<EighAttrs, 0, &EighAttrs::upper>(all, {"upper"});
  add<SvdAttrs, 0, &SvdAttrs::full_matrices>(all, {"full_matrices"});
  add<RcondAttrs, 0, &RcondAttrs::rcond>(all, {"rcond"});
  add<SortAttrs, 0, &SortAttrs::axis, &SortAttrs::descending>(all, {"axis", "descending"});
  add<TopkAttrs, 0, &TopkAttrs::axis, &TopkAttrs::largest, &TopkAttrs::k>(all,
                                                                          {"axis", "largest", "k"});
  add<QrAttrs, 0, &QrAttrs::complete>(all, {"complete"});
  using Part = PartitionAttrs;
  add<Part, 0, &Part::axis, &Part::n, &Part::kth>(all, {"axis", "n", "kth"});
  add<ScatterAttrs, 0, &ScatterAttrs::axis, &ScatterAttrs::length>(all, {"axis", "length"});
  using Take = TakeAttrs;
  add<Take, 0, &Take::n_axes, &Take::axes, &Take::at, &Take::mode, &Take::along>(
      all, {"n_axes", "axes", "at", "mode", "along"});
  using Pick = PickAttrs;
  add<Pick, 0, &Pick::axis, &Pick::mode, &Pick::keepdims, &Pick::length>(
      all, {"axis", "mode", "keepdims", "length"});
  using Hot = OneHotAttrs;
  add<Hot, 0, &Hot::depth, &Hot::on, &Hot::off, &Hot::dtype>(all, {"depth", "on", "off", "dtype"});
  add<MaskAttrs, 0, &MaskAttrs::count>(all, {"count"});
  add<MaskFillAttrs, 0, &MaskFillAttrs::value>(all, {"value"});
  add<UnravelAttrs, 0, &UnravelAttrs::shape, &UnravelAttrs::axes_last>(all, {"shape", "axes_last"});
  add<RavelAttrs, 0, &RavelAttrs::shape, &RavelAttrs::mode>(all, {"shape", "mode"});
  add<ShapeAttrs, 0, &ShapeAttrs::target>(all, {"target"});
  add<TransposeAttrs, 0, &TransposeAttrs::axes>(all, {"axes"});
  using Sliced = SliceAttrs;
  add<Sliced, 1, &Sliced::begin, &Sliced::step, &Sliced::drop, &Sliced::length>(
      all, {"begin", "step", "drop", "length"});
  using SliceGrad = SliceGradAttrs;
  add<SliceGrad, 1, &SliceGrad::begin, &SliceGrad::step, &SliceGrad::drop, &SliceGrad::base>(
      all, {"begin", "step", "drop", "base"});
  add<ConcatAttrs, 0, &ConcatAttrs::axis>(all, {"axis"});
  add<CopyAttrs, 0, &CopyAttrs::dtype>(all, {"dtype"});
  add<FillAttrs, 0, &FillAttrs::value, &FillAttrs::meta>(all, {"value", "meta"});
  using Arange = ArangeAttrs;
  add<Arange, 0, &Arange::start, &Arange::step, &Arange::last, &Arange::has_last, &Arange::meta>(
      all, {"start", "step", "last", "has_last", "meta"});
  using Random = RandomAttrs;
  add<Random, 0, &Random::a, &Random::b, &Random::low, &Random::range, &Random::key, &Random::meta>(
      all, {"a", "b", "low", "range", "key", "meta"});
  add_rearrangements(all);
  using Truncated = TruncatedAttrs;
  add<Truncated, 0, &Truncated::a, &Truncated::b, &Truncated::lower, &Truncated::upper,
      &Truncated::key, &Truncated::meta>(all, {"a", "b", "lower", "upper", "key", "meta"});
  add_optimizers(all);
  return all;
}

// Fields that an op does not read, because ops share attributes.
bool is_unread(const std::string& op, const std::string& field) {
  const std::string at = op + "." + field;
  static const std::vector<std::string> all = {
      "layer_norm.groups",
      "rms_norm.groups",
      "rms_norm_grad.groups",
      "rms_norm_grad.beta",
      "batch_norm.groups",
      "batch_norm_inference.groups",
      "batch_norm_statistics.groups",
      "batch_norm_statistics.epsilon",
      "batch_norm_grad.groups",
      "group_norm.axis",
      "instance_norm.axis",
      "layer_norm_grad.given",
      "contiguous.dtype",
      "where.dtype",
      "divide_grad.dtype",
      "ratio_grad.dtype",
      "power_grad.dtype",
      "rms_norm_grad.given",
      "convolution.size",
      "deconvolution.activation",
      "convolution_weight_grad.activation",
      "avg_pool.size",
      "max_pool.size",
      "max_pool_grad.size",
      "max_pool_gather.size",
      "max_pool.result",
      "max_pool_grad.result",
      "max_pool_gather.result",
      "max_pool.adaptive",
      "max_pool_grad.adaptive",
      "max_pool_gather.adaptive",
      "max_pool.count_include_pad",
      "max_pool_grad.count_include_pad",
      "max_pool_gather.count_include_pad",
      "pick.length",
      "uniform.low",
      "uniform.range",
      "normal.low",
      "normal.range",
      "randint.a",
      "randint.b",
      "bernoulli.b",
      "bernoulli.low",
      "bernoulli.range",
      "exponential.b",
      "exponential.low",
      "exponential.range",
      "laplace.low",
      "laplace.range",
      "random_gamma.low",
      "random_gamma.range",
      "beta.low",
      "beta.range",
      "poisson.b",
      "poisson.low",
      "poisson.range",
      "binomial.b",
      "binomial.range",
      "multinomial.a",
      "multinomial.b",
      "multinomial.range",
      "choice.a",
      "choice.b",
      "choice.low",
      "choice.range",
  };
  return std::ranges::count(all, at) > 0;
}

class RegistryAttributes : public RegistryWalk {};

TEST_P(RegistryAttributes, TakeTwoValuesOverTheSamples) {
  LOCUS_NEEDS_SAMPLES();
  if (*op().attrs_type == typeid(NoAttrs)) GTEST_SKIP() << op().name << " has no attributes";
  if (op().function) GTEST_SKIP() << op().name << " is a function: its own tests call it";
  static const Known all = known();
  const auto listed = all.find(*op().attrs_type);
  ASSERT_NE(listed, all.end()) << "list the fields of the attributes of " << op().name << " above";
  const DType d = has(op(), DeviceType::cpu, f32) ? f32 : dtypes(op(), cpu()).front();
  const Samples samples = op().samples(cpu(), d);
  for (const Field& field : listed->second) {
    if (is_unread(op().name, field.name)) continue;
    const auto same = [&](const Sample& s) {
      return std::memcmp(s.attrs.bytes + field.offset, samples[0].attrs.bytes + field.offset,
                         field.size) == 0;
    };
    EXPECT_FALSE(std::ranges::all_of(samples, same))
        << op().name << ": every sample has the same " << field.name
        << "; add one with another, in which results and gradients differ";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, RegistryAttributes, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
