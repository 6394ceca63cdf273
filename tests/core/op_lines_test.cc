// Errors of ops, losses and backward passes name the caller's line.
#include <locus/core/base/at_line.h>
#include <locus/locus.h>
#include "tests/support/expect_line.h"

namespace locus::test {
namespace {

class OpLines : public testing::Test {
 protected:
  const Tensor x_ = ones({4, 2}), wide_ = ones({4, 5}), cube_ = ones({2, 3, 4}), v_ = ones({3});
  const Tensor none_, bits_ = array({true, false}), bytes_ = zeros({2}, u8);
};

TEST_F(OpLines, OfAutograd) {
  EXPECT_NAMES_ITS_LINE(x_.backward());
  EXPECT_NAMES_ITS_LINE(x_.backward({.retain_graph = true}));
  EXPECT_NAMES_ITS_LINE(x_.zero_grad());
  EXPECT_NAMES_ITS_LINE(x_.grad());
  EXPECT_NAMES_ITS_LINE(none_.detach());
  EXPECT_NAMES_ITS_LINE(bits_.attach_grad());
  EXPECT_NAMES_ITS_LINE(x_.attach_grad(wide_));
  EXPECT_NAMES_ITS_LINE(autograd::backward({x_}));
  EXPECT_NAMES_ITS_LINE(autograd::grad(x_, {wide_}));
  EXPECT_NAMES_ITS_LINE(autograd::grad(Tensors{x_}, {wide_}));
}

TEST_F(OpLines, OfLosses) {
  EXPECT_NAMES_ITS_LINE(nn::L2Loss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::L1Loss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::HuberLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::SoftmaxCrossEntropyLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::SoftmaxCrossEntropyLoss()(x_, full({4}, 7)));
  EXPECT_NAMES_ITS_LINE(nn::SigmoidBinaryCrossEntropyLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::LogisticLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::KLDivLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::HingeLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::SquaredHingeLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::TripletLoss()(x_, wide_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::PoissonNLLLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::CosineEmbeddingLoss()(x_, wide_, x_));
  EXPECT_NAMES_ITS_LINE(nn::CTCLoss()(x_, wide_));
  EXPECT_NAMES_ITS_LINE(nn::relu(none_));
  EXPECT_NAMES_ITS_LINE(nn::log_sigmoid(none_));
}

TEST_F(OpLines, OfMembers) {
  EXPECT_NAMES_ITS_LINE(x_.reshape({3}));
  EXPECT_NAMES_ITS_LINE(none_.T());
  EXPECT_NAMES_ITS_LINE(none_.astype(f64));
  EXPECT_NAMES_ITS_LINE(x_.take(bits_));
  EXPECT_NAMES_ITS_LINE(none_.sum());
  EXPECT_NAMES_ITS_LINE(x_.sum({.axis = 2}));
  EXPECT_NAMES_ITS_LINE(none_.mean());
  EXPECT_NAMES_ITS_LINE(x_.mean({.axis = 2}));
  EXPECT_NAMES_ITS_LINE(x_[4]);
  EXPECT_NAMES_ITS_LINE(x_[Slice(0, 2, 0)]);
  EXPECT_NAMES_ITS_LINE(none_[newaxis]);
  EXPECT_NAMES_ITS_LINE(x_(4));
  EXPECT_NAMES_ITS_LINE(x_(0, 2));
  EXPECT_NAMES_ITS_LINE(x_(ellipsis, newaxis, 0, 5));
  EXPECT_NAMES_ITS_LINE(none_());
  EXPECT_NAMES_ITS_LINE(x_(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_NAMES_ITS_LINE(x_(array({7}), Slice()).gather());
  EXPECT_NAMES_ITS_LINE(bytes_(Slice()) = 300);
  EXPECT_NAMES_ITS_LINE(x_(Slice()) = wide_);
}

TEST_F(OpLines, OfViews) {
  EXPECT_NAMES_ITS_LINE(reshape(x_, {3}));
  EXPECT_NAMES_ITS_LINE(flatten(none_));
  EXPECT_NAMES_ITS_LINE(transpose(x_, {0, 0}));
  EXPECT_NAMES_ITS_LINE(transpose(x_, std::vector<int>{2, 0}));
  EXPECT_NAMES_ITS_LINE(swapaxes(x_, 0, 2));
  EXPECT_NAMES_ITS_LINE(expand_dims(x_, 4));
  EXPECT_NAMES_ITS_LINE(squeeze(none_));
  EXPECT_NAMES_ITS_LINE(squeeze(x_, 0));
  EXPECT_NAMES_ITS_LINE(broadcast_to(x_, {3}));
  EXPECT_NAMES_ITS_LINE(flip(x_, 2));
  EXPECT_NAMES_ITS_LINE(slice_axis(x_, 2, Slice()));
}

TEST_F(OpLines, OfJoins) {
  EXPECT_NAMES_ITS_LINE(concat({x_, v_}));
  EXPECT_NAMES_ITS_LINE(stack({x_, v_}));
  EXPECT_NAMES_ITS_LINE(split(x_, 3));
  EXPECT_NAMES_ITS_LINE(tile(x_, {-1}));
  EXPECT_NAMES_ITS_LINE(repeat(x_, -1, 0));
}

TEST_F(OpLines, OfIndices) {
  EXPECT_NAMES_ITS_LINE(take(x_, bits_));
  EXPECT_NAMES_ITS_LINE(take(x_, array({4})));
  EXPECT_NAMES_ITS_LINE(pick(x_, v_));
  EXPECT_NAMES_ITS_LINE(one_hot(v_, -1));
  EXPECT_NAMES_ITS_LINE(nonzero(none_));
}

TEST_F(OpLines, OfCreation) {
  EXPECT_NAMES_ITS_LINE(empty({-1}));
  EXPECT_NAMES_ITS_LINE(zeros({-1}));
  EXPECT_NAMES_ITS_LINE(ones({-1}));
  EXPECT_NAMES_ITS_LINE(full({2}, 300, u8));
  EXPECT_NAMES_ITS_LINE(zeros_like(none_));
  EXPECT_NAMES_ITS_LINE(ones_like(none_));
  EXPECT_NAMES_ITS_LINE(arange(INFINITY));
  EXPECT_NAMES_ITS_LINE(arange(0, INFINITY));
  EXPECT_NAMES_ITS_LINE(arange(0, 1, 0));
  EXPECT_NAMES_ITS_LINE(linspace(0, INFINITY, 2));
  EXPECT_NAMES_ITS_LINE(linspace(0, INFINITY, 2, false));
  EXPECT_NAMES_ITS_LINE(eye(-1));
  EXPECT_NAMES_ITS_LINE(array({300}, u8));
  EXPECT_NAMES_ITS_LINE(array({{1, 2}, {3}}));
  EXPECT_NAMES_ITS_LINE(array({{{1, 2}}, {{3}}}));
  EXPECT_NAMES_ITS_LINE(array(std::vector<int>{1, 2}, {3}));
}

TEST_F(OpLines, OfProducts) {
  EXPECT_NAMES_ITS_LINE(dot(x_, wide_));
  EXPECT_NAMES_ITS_LINE(dot(x_, v_));
  EXPECT_NAMES_ITS_LINE(matmul(x_, wide_));
  EXPECT_NAMES_ITS_LINE(matmul(x_, wide_, MatmulAttrs()));
  EXPECT_NAMES_ITS_LINE(dense(x_, wide_));
  EXPECT_NAMES_ITS_LINE(convolution(x_, wide_));
  EXPECT_NAMES_ITS_LINE(deconvolution(x_, wide_));
  EXPECT_NAMES_ITS_LINE(convolution_weight_grad(x_, wide_, 3));
}

TEST_F(OpLines, OfReductions) {
  EXPECT_NAMES_ITS_LINE(sum(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(mean(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(prod(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(max(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(min(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(any(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(all(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(argmax(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(argmin(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(logsumexp(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(var(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(locus::std(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(norm(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(norm(x_, ReduceOptions{.axis = 2}));
  EXPECT_NAMES_ITS_LINE(sum_to(x_, {3}));
}

TEST_F(OpLines, OfSoftmaxesAndNorms) {
  EXPECT_NAMES_ITS_LINE(softmax(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(log_softmax(x_, {.axis = 2}));
  EXPECT_NAMES_ITS_LINE(softmax_cross_entropy(x_, v_));
  EXPECT_NAMES_ITS_LINE(softmax_cross_entropy(x_, full({4}, 7)));
  EXPECT_NAMES_ITS_LINE(batch_norm(x_, v_, v_, v_, v_));
  EXPECT_NAMES_ITS_LINE(layer_norm(x_, v_, v_));
  EXPECT_NAMES_ITS_LINE(rms_norm(x_, v_));
  EXPECT_NAMES_ITS_LINE(group_norm(cube_, v_, v_, {.num_groups = 2}));
  EXPECT_NAMES_ITS_LINE(instance_norm(cube_, x_, v_));
}

TEST_F(OpLines, OfPoolings) {
  EXPECT_NAMES_ITS_LINE(max_pool(x_, 2));
  EXPECT_NAMES_ITS_LINE(avg_pool(x_, 2));
  EXPECT_NAMES_ITS_LINE(global_max_pool(x_));
  EXPECT_NAMES_ITS_LINE(global_avg_pool(x_));
  EXPECT_NAMES_ITS_LINE(adaptive_avg_pool(x_, 2));
}

TEST_F(OpLines, OfRandomNumbersAndCopies) {
  EXPECT_NAMES_ITS_LINE(random::uniform(1, 0, {2}));
  EXPECT_NAMES_ITS_LINE(random::normal(0, -1, {2}));
  EXPECT_NAMES_ITS_LINE(random::randint(1, 0, {2}));
  EXPECT_NAMES_ITS_LINE(random::bernoulli(2, {2}));
  EXPECT_NAMES_ITS_LINE(random::binomial(1, 2, {2}));
  EXPECT_NAMES_ITS_LINE(random::laplace(0, -1, {2}));
  EXPECT_NAMES_ITS_LINE(random::truncated_normal(1, 0, 0, 1, {2}));
  EXPECT_NAMES_ITS_LINE(random::exponential(-1, {2}));
  EXPECT_NAMES_ITS_LINE(random::gamma(-1, 1));
  EXPECT_NAMES_ITS_LINE(random::beta(-1, 1, {2}));
  EXPECT_NAMES_ITS_LINE(random::poisson(-1, {2}));
  EXPECT_NAMES_ITS_LINE(random::multinomial(1, {}));
  EXPECT_NAMES_ITS_LINE(random::choice(0, {2}));
  EXPECT_NAMES_ITS_LINE(random::choice(ones({}), {2}));
  EXPECT_NAMES_ITS_LINE(random::permutation(-1));
  EXPECT_NAMES_ITS_LINE(random::shuffle(ones({})));
  EXPECT_NAMES_ITS_LINE(cast(none_, f64));
  EXPECT_NAMES_ITS_LINE(copy(none_));
  EXPECT_NAMES_ITS_LINE(contiguous(none_));
}

// All of unary.h and the predicates of compare.h.
TEST_F(OpLines, OfOneOperand) {
  EXPECT_NAMES_ITS_LINE(negative(none_));
  EXPECT_NAMES_ITS_LINE(abs(none_));
  EXPECT_NAMES_ITS_LINE(sign(none_));
  EXPECT_NAMES_ITS_LINE(square(none_));
  EXPECT_NAMES_ITS_LINE(floor(none_));
  EXPECT_NAMES_ITS_LINE(ceil(none_));
  EXPECT_NAMES_ITS_LINE(trunc(none_));
  EXPECT_NAMES_ITS_LINE(round(none_));
  EXPECT_NAMES_ITS_LINE(rint(none_));
  EXPECT_NAMES_ITS_LINE(sqrt(none_));
  EXPECT_NAMES_ITS_LINE(rsqrt(none_));
  EXPECT_NAMES_ITS_LINE(cbrt(none_));
  EXPECT_NAMES_ITS_LINE(reciprocal(none_));
  EXPECT_NAMES_ITS_LINE(exp(none_));
  EXPECT_NAMES_ITS_LINE(expm1(none_));
  EXPECT_NAMES_ITS_LINE(log(none_));
  EXPECT_NAMES_ITS_LINE(log2(none_));
  EXPECT_NAMES_ITS_LINE(log10(none_));
  EXPECT_NAMES_ITS_LINE(log1p(none_));
  EXPECT_NAMES_ITS_LINE(relu(none_));
  EXPECT_NAMES_ITS_LINE(sigmoid(none_));
  EXPECT_NAMES_ITS_LINE(tanh(none_));
  EXPECT_NAMES_ITS_LINE(softsign(none_));
  EXPECT_NAMES_ITS_LINE(softplus(none_));
  EXPECT_NAMES_ITS_LINE(gelu(none_));
  EXPECT_NAMES_ITS_LINE(silu(none_));
  EXPECT_NAMES_ITS_LINE(swish(none_, 1));
  EXPECT_NAMES_ITS_LINE(mish(none_));
  EXPECT_NAMES_ITS_LINE(erf(none_));
  EXPECT_NAMES_ITS_LINE(leaky_relu(none_));
  EXPECT_NAMES_ITS_LINE(prelu(none_, v_));
  EXPECT_NAMES_ITS_LINE(elu(none_));
  EXPECT_NAMES_ITS_LINE(selu(none_));
  EXPECT_NAMES_ITS_LINE(hard_sigmoid(none_));
  EXPECT_NAMES_ITS_LINE(hard_swish(none_));
  EXPECT_NAMES_ITS_LINE(smooth_l1(none_));
  EXPECT_NAMES_ITS_LINE(softcap(none_, 1));
  EXPECT_NAMES_ITS_LINE(clip(none_, 1, 1));
  EXPECT_NAMES_ITS_LINE(sin(none_));
  EXPECT_NAMES_ITS_LINE(cos(none_));
  EXPECT_NAMES_ITS_LINE(tan(none_));
  EXPECT_NAMES_ITS_LINE(arcsin(none_));
  EXPECT_NAMES_ITS_LINE(arccos(none_));
  EXPECT_NAMES_ITS_LINE(arctan(none_));
  EXPECT_NAMES_ITS_LINE(sinh(none_));
  EXPECT_NAMES_ITS_LINE(cosh(none_));
  EXPECT_NAMES_ITS_LINE(arcsinh(none_));
  EXPECT_NAMES_ITS_LINE(arccosh(none_));
  EXPECT_NAMES_ITS_LINE(arctanh(none_));
  EXPECT_NAMES_ITS_LINE(logical_not(none_));
  EXPECT_NAMES_ITS_LINE(isnan(none_));
  EXPECT_NAMES_ITS_LINE(isinf(none_));
  EXPECT_NAMES_ITS_LINE(isfinite(none_));
  EXPECT_NAMES_ITS_LINE(-bits_);
  EXPECT_NAMES_ITS_LINE(-x_[ones({9}) > 0]);
  EXPECT_NAMES_ITS_LINE(clip(x_, 2, 1));
  EXPECT_NAMES_ITS_LINE(elu(x_, NAN));
}

TEST_F(OpLines, OfTwoOperands) {
  EXPECT_NAMES_ITS_LINE(add(x_, wide_));
  EXPECT_NAMES_ITS_LINE(subtract(x_, wide_));
  EXPECT_NAMES_ITS_LINE(multiply(x_, wide_));
  EXPECT_NAMES_ITS_LINE(divide(x_, wide_));
  EXPECT_NAMES_ITS_LINE(mod(x_, wide_));
  EXPECT_NAMES_ITS_LINE(remainder(x_, wide_));
  EXPECT_NAMES_ITS_LINE(fmod(x_, wide_));
  EXPECT_NAMES_ITS_LINE(floor_divide(x_, wide_));
  EXPECT_NAMES_ITS_LINE(divmod(x_, wide_));
  EXPECT_NAMES_ITS_LINE(copysign(x_, wide_));
  EXPECT_NAMES_ITS_LINE(heaviside(x_, wide_));
  EXPECT_NAMES_ITS_LINE(arctan2(x_, wide_));
  EXPECT_NAMES_ITS_LINE(logaddexp(x_, wide_));
  EXPECT_NAMES_ITS_LINE(power(x_, wide_));
  EXPECT_NAMES_ITS_LINE(maximum(x_, wide_));
  EXPECT_NAMES_ITS_LINE(minimum(x_, wide_));
  EXPECT_NAMES_ITS_LINE(ldexp(x_, wide_));
  EXPECT_NAMES_ITS_LINE(xlogy(x_, wide_));
  EXPECT_NAMES_ITS_LINE(hypot(x_, wide_));
  EXPECT_NAMES_ITS_LINE(equal(x_, wide_));
  EXPECT_NAMES_ITS_LINE(not_equal(x_, wide_));
  EXPECT_NAMES_ITS_LINE(greater(x_, wide_));
  EXPECT_NAMES_ITS_LINE(greater_equal(x_, wide_));
  EXPECT_NAMES_ITS_LINE(lesser(x_, wide_));
  EXPECT_NAMES_ITS_LINE(lesser_equal(x_, wide_));
  EXPECT_NAMES_ITS_LINE(logical_and(x_, wide_));
  EXPECT_NAMES_ITS_LINE(logical_or(x_, wide_));
  EXPECT_NAMES_ITS_LINE(logical_xor(x_, wide_));
  EXPECT_NAMES_ITS_LINE(pow(x_, wide_));
  EXPECT_NAMES_ITS_LINE(where(x_, wide_, 1));
  EXPECT_NAMES_ITS_LINE(add(1, 2));
}

TEST_F(OpLines, OfOperators) {
  EXPECT_NAMES_ITS_LINE(x_ + wide_);
  EXPECT_NAMES_ITS_LINE(x_ - wide_);
  EXPECT_NAMES_ITS_LINE(x_ * wide_);
  EXPECT_NAMES_ITS_LINE(x_ / wide_);
  EXPECT_NAMES_ITS_LINE(x_ % wide_);
  EXPECT_NAMES_ITS_LINE(x_ == wide_);
  EXPECT_NAMES_ITS_LINE(x_ != wide_);
  EXPECT_NAMES_ITS_LINE(x_ < wide_);
  EXPECT_NAMES_ITS_LINE(x_ <= wide_);
  EXPECT_NAMES_ITS_LINE(x_ > wide_);
  EXPECT_NAMES_ITS_LINE(x_ >= wide_);
  EXPECT_NAMES_ITS_LINE(300 + bytes_);
  EXPECT_NAMES_ITS_LINE(bytes_ * 300);
  EXPECT_NAMES_ITS_LINE(1 / none_);
  EXPECT_NAMES_ITS_LINE(x_[bits_] + wide_);
  EXPECT_NAMES_ITS_LINE(x_ + wide_[bits_]);
  Tensor x = x_, bytes = bytes_;
  EXPECT_NAMES_ITS_LINE(x += wide_);
  EXPECT_NAMES_ITS_LINE(x -= wide_);
  EXPECT_NAMES_ITS_LINE(x *= wide_);
  EXPECT_NAMES_ITS_LINE(x /= wide_);
  EXPECT_NAMES_ITS_LINE(x %= wide_);
  EXPECT_NAMES_ITS_LINE(x(0) += wide_);
  EXPECT_NAMES_ITS_LINE(bytes += 300);
  EXPECT_NAMES_ITS_LINE(bytes += .5);
}

// A line of the library would not help, so an error without a user's line names none.
TEST_F(OpLines, OfTheLibraryAreNotNamed) {
  const std::string text = message_of<Error>([&] { multi_sum_sq({none_}); });
  EXPECT_THAT(text, testing::Not(testing::HasSubstr(" (at ")));
  EXPECT_EQ(with_line("x: no", Caller::here("ops/x.cc", 3, true)), "x: no");
  EXPECT_EQ(with_line("x: no (at a.cc:3)", Caller::here("ops/x.cc", 3, true)), "x: no (at a.cc:3)");
}

}  // namespace
}  // namespace locus::test
