// The path of every op call: errors before anything runs.
#include <atomic>
#include <limits>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul/matmul_kernel.h>
#include <locus/ops/norm/norm_kernel.h>
#include <locus/ops/optim.h>
#include <locus/ops/softmax/softmax_kernel.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Reworded, KeepsTheTypeOfAnError) {
  try {
    throw CaptureError("y: ", 2, " of ", cpu(1));
  } catch (...) {
    const std::exception_ptr e = reworded([](const std::string& text) { return "x: " + text; });
    const auto again = [&] { std::rethrow_exception(e); };
    EXPECT_EQ(message_of<CaptureError>(again), "x: y: 2 of cpu(1)");
  }
}

TEST(Invoke, OutOfMemoryNamesTheOpAndItsOperands) {
  for (const Context c : contexts()) {
    const Tensor column = ones({1 << 13, 1}, c), row = ones({1, 1 << 13}, c);
    column.wait_to_read();
    MemoryPool& pool = memory_pool(c);
    pool.release_cached();
    pool.set_limit(pool.stats().reserved);
    const std::string add = message_of<OutOfMemory>([&] { column + row; });
    const std::string tiled = message_of<OutOfMemory>([&] { tile(column, {1, 1 << 13}); });
    pool.set_limit(0);
    const std::string place = to_string(c);
    EXPECT_THAT(add, testing::StartsWith("add: lhs " + place + " (8192,1) f32, rhs " + place +
                                         " (1,8192) f32: out of memory on " + place));
    EXPECT_THAT(tiled, AllOf(HasSubstr(": out of memory on " + place), HasSubstr("(8192,")));
  }
}

TEST(Invoke, RefusesAnotherNumberOfInputs) {
  const Tensor x = ones({3});
  EXPECT_THROW(invoke(get_op("exp"), Refs{}), Error);
  EXPECT_THROW(invoke_on(cpu(0), get_op("exp")), Error);
  const std::string text = message_of<Error>([&] { invoke(get_op("exp"), {x, x}); });
  EXPECT_NE(text.find("exp: expected 1 input (data), got 2: data cpu(0) (3,) f32"),
            std::string::npos)
      << text;
  EXPECT_THROW(invoke(get_op("concat"), Refs{}), Error);
  EXPECT_THROW(invoke(get_op("fill"), {x}, FillAttrs{}), Error);
}

TEST(Invoke, RefusesAttributesOfAnotherType) {
  const Tensor x = ones({3});
  const std::string text = message_of<ValueError>([&] { invoke(get_op("softmax"), {x}); });
  EXPECT_NE(
      text.find("softmax: expected attributes of type locus::SoftmaxAttrs, got locus::NoAttrs"),
      std::string::npos)
      << text;
  EXPECT_THROW(invoke(get_op("softmax"), {x}, MatmulAttrs{}), ValueError);
  EXPECT_THROW(OpRef<MatmulAttrs>("softmax"), ValueError);
  EXPECT_NO_THROW(OpRef<SoftmaxAttrs>("softmax"));
}

TEST(Invoke, RefusesAnotherNumberOfResults) {
  const Tensor w = ones({2, 2});
  const std::string text = message_of<Error>([&] {
    invoke(get_op("dense_backward"), {w, w, w}, DenseBackwardAttrs{});
  });
  EXPECT_NE(text.find("dense_backward: the op has 3 results"), std::string::npos) << text;
  Tensor a = ones({3}), b = ones({3});
  EXPECT_THROW(invoke_into(get_op("exp"), {a}, {a, b}), Error);
  EXPECT_THROW(invoke(get_op("sgd_update"), {a, b}, SoftmaxAttrs{}), Error);
}

TEST(Invoke, OpsInPlaceAreCalledIntoTheirTarget) {
  const Tensor x = ones({3}), mask = ones({3}, bool_);
  EXPECT_THROW(invoke(get_op("mask_fill"), {x, mask}), Error);
}

TEST(Invoke, WritesIntoResultsThatAreThere) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, c), place = zeros({2, 3}, c), wide = zeros({2, 6}, c);
    const Tensor gaps = wide(Slice(), Slice({}, {}, 2));
    const auto into = [&](const Tensor& target) {
      const Ref in[] = {x, x};
      Tensor out = target;
      detail::invoke(get_op("add"), in, AttrsView::of(BinaryAttrs()), nullptr, {&out, 1});
      EXPECT_TRUE(out.is(target));
    };
    const void* memory = place.data_ptr();
    into(place);
    EXPECT_EQ(place.data_ptr(), memory);
    EXPECT_EQ(values(place), std::vector<double>(6, 2));
    into(gaps);
    EXPECT_EQ(values(wide(0)), (std::vector<double>{2, 0, 2, 0, 2, 0}));
    EXPECT_THROW(into(zeros({3, 2}, c)), ShapeError);
    EXPECT_THROW(into(zeros({2, 3}, {c, f64})), DTypeError);
    EXPECT_THROW(into(zeros({2, 3}, cpu(1))), ContextMismatch);
  }
}

TEST(Invoke, ResultsThatAreThereAreNoPartOfARecording) {
  const Tensor x = ones({3}), w = ones({3});
  w.attach_grad();
  const autograd::Record record;
  Tensor out = w;
  const Ref in[] = {x, x};
  EXPECT_THROW(detail::invoke(get_op("add"), in, AttrsView::of(BinaryAttrs()), nullptr, {&out, 1}),
               Error);
  EXPECT_TRUE(w.has_grad());
  EXPECT_EQ(values(w), std::vector<double>(3, 1));
}

TEST(Invoke, ViewsAndUnfinishedOpsAreRefusedWhereTheyCannotRun) {
  const Tensor x = ones({2, 3}), y = zeros({2, 3});
  const Op& view = get_op("transpose");
  const Ref in(x), target(y);
  Attrs none;
  const AttrsView attrs(none.bytes, 0, view.attrs_type);
  EXPECT_THROW(detail::invoke_into(view, {&in, 1}, attrs, {&target, 1}), Error);
  static const Op& unfinished =
      OpDef("unfinished", {"x"}).no_gradient("of a test").no_samples("of a test");
  const std::string text = message_of<Error>([&] { invoke(unfinished, {x}); });
  EXPECT_NE(text.find("needs infer()"), std::string::npos) << text;
}

TEST(Invoke, WeightsWithGapsAreRefused) {
  const Tensor w = ones({6}), g = ones({3});
  const Tensor every = w(Slice({}, {}, 2));
  EXPECT_THROW(
      invoke_into(get_op("sgd_update"), {every, g}, {every}, Live<SGDUpdate>{SGDUpdate{}, nullptr}),
      Error);
  EXPECT_EQ(values(w), std::vector<double>(6, 1));
}

TEST(Invoke, ResultsOfAnyNumberAreTheCallersToName) {
  const Tensor w = ones({3});
  const std::vector<Ref> in{w, w};
  EXPECT_THAT(message_of<Error>([&] {
                invoke_all(get_op("sgd_update"), in, Live<SGDUpdate>{SGDUpdate{}, nullptr});
              }),
              HasSubstr("sgd_update: "));
}

TEST(Invoke, TargetsThatShareMemoryAreRefused) {
  for (Context c : contexts()) {
    const Tensor w = ones({6}, c), g = ones({4}, c), low = w(Slice(0, 4)), high = w(Slice(2, 6));
    const std::string text = message_of<ValueError>([&] {
      sgd_update({low, high}, {g, g}, {}, {.lr = 1});
    });
    EXPECT_THAT(text, AllOf(HasSubstr("sgd_update: out 0 and out 1 share memory"),
                            HasSubstr("expected targets that share no memory")));
    EXPECT_THROW(sgd_update({g, w, g}, {g, w, g}, {}, {.lr = 1}), ValueError);
    EXPECT_EQ(values(w), std::vector<double>(6, 1));
    sgd_update({low(Slice(0, 2)), high}, {g(Slice(0, 2)), g}, {}, {.lr = 1});
    EXPECT_EQ(values(w), std::vector<double>(6, 0));
  }
}

TEST(Invoke, NothingIsCopiedForACallThatIsRefused) {
  const Tensor x = ones({4, 6}).T();
  const uint64_t before = memory_pool(cpu()).stats().allocations;
  EXPECT_THROW(invoke(get_op("softmax"), {x}, SoftmaxAttrs{5, 1}), ShapeError);
  EXPECT_EQ(memory_pool(cpu()).stats().allocations, before);
}

DType same_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return in[0].dtype;
}
template <int V>
void fill_with(const Call& call) {
  for (int64_t i = 0; i < call.out[0].meta.size(); ++i) call.out[0].as<float>()[i] = V;
}

TEST(Invoke, MoreTargetsThanResultsAreRefused) {
  const Tensor x = ones({2});
  const std::vector<Ref> in{x, x};
  EXPECT_THROW(invoke_all(get_op("add"), in, BinaryAttrs{}, {ones({2}), ones({2})}), Error);
}

TEST(Invoke, AKernelOfNoTypeIsRefused) {
  const auto kernel = &fill_with<1>;
  EXPECT_THROW(set_kernel("add", static_cast<DeviceType>(200), f32, kernel), ValueError);
  EXPECT_THROW(set_kernel("add", DeviceType::cpu, static_cast<DType>(200), kernel), DTypeError);
}

TEST(Invoke, NothingIsMadeIfThereIsNoKernel) {
  static const Op& op = OpDef("only_f32_of_this_test", {"x"})
                            .infer<&same_infer>()
                            .kernel(DeviceType::cpu, f32, &fill_with<1>)
                            .no_gradient("of a test")
                            .no_samples("of a test");
  for (const Context c : contexts()) {
    if (device(c).kernels() != DeviceType::cpu) continue;
    const Tensor x = ones({4, 6}, {c, f64}).T();  // a kernel would get a row-major copy
    const uint64_t before = memory_pool(c).stats().allocations;
    const std::string text = message_of<DTypeError>([&] { invoke(op, {x}); });
    EXPECT_EQ(memory_pool(c).stats().allocations, before);
    EXPECT_THAT(text, HasSubstr("no kernel for f64 on " + to_string(c) + "; expected one of f32"));
  }
}

const Op& filling_op() {
  static const Op& op = OpDef("fills_of_this_test", {"x"})
                            .infer<&same_infer>()
                            .no_gradient("of a test")
                            .no_samples("of a test");
  return op;
}
void set_filling(Kernel kernel) { set_kernel(filling_op().name, DeviceType::cpu, f32, kernel); }

// Copying the input, after the check, sets another kernel.
TEST(Invoke, ACallLaunchesTheKernelThatItsCheckFound) {
  const Op& op = filling_op();
  set_filling(&fill_with<1>);
  static const Kernel copy = get_op("copy").kernel(DeviceType::cpu, f32);
  set_kernel("copy", DeviceType::cpu, f32, [](const Call& call) {
    set_filling(&fill_with<2>);
    copy(call);
  });
  const Tensor x = ones({4, 6}).T(), first = invoke(op, {x});
  set_kernel("copy", DeviceType::cpu, f32, copy);
  EXPECT_EQ(values(first), std::vector<double>(24, 1));
  EXPECT_EQ(values(invoke(op, {x})), std::vector<double>(24, 2));
}

TEST(Invoke, AKernelMayBeSetBesideCallsInAnotherThread) {
  const Op& op = filling_op();
  std::atomic<bool> begun = false, done = false;
  std::thread setter([&] {
    const Kernel kernels[] = {&fill_with<1>, &fill_with<2>, nullptr};
    for (size_t i = 0; !done; ++i) {
      set_filling(kernels[i % 3]);
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  const Tensor x = ones({64, 64}).T();  // its copy takes time between the check and the launch
  int refused = 0, results[3] = {};
  for (int i = 0; i < 2000; ++i) try {
      const std::vector<float> y = invoke(op, {x}).to_vector<float>();
      ASSERT_TRUE(y[0] == 1 || y[0] == 2);
      ASSERT_EQ(y, std::vector<float>(64 * 64, y[0])) << "two kernels ran";
      ++results[static_cast<int>(y[0])];
    } catch (const DTypeError&) {
      ++refused;
    }
  done = true;
  setter.join();
  EXPECT_EQ(refused + results[1] + results[2], 2000);
}

// batch_norm must allocate its first result; the others are given.
TEST(Invoke, NothingIsMadeForTargetsThatAreRefused) {
  for (Context c : contexts()) {
    const Tensor x = ones({4, 6}, c).T(), v = ones({4}, c), other = ones({4}, c),
                 wide = ones({4}, {c, f64});
    const Ref in[] = {x, v, v, v, v};
    const auto allocations = [&] { return memory_pool(c).stats().allocations; };
    const auto refused = [&](const Tensor& mean, const Tensor& var) {
      const uint64_t before = allocations();
      Tensors out(5);
      out[1] = mean, out[4] = var;
      const std::string text = message_of<Error>([&] {
        detail::invoke(get_op("batch_norm"), in, AttrsView::of(BatchNormAttrs{{1}, .9}), nullptr,
                       out);
      });
      EXPECT_EQ(allocations(), before);
      EXPECT_FALSE(out[0].defined());
      return text;
    };
    const Tensor far = zeros({4}, cpu(1));
    EXPECT_THAT(refused(wide, far), HasSubstr("expected out 4 on " + to_string(c)));
    EXPECT_THAT(refused(wide, ones({3}, c)), HasSubstr("result 4 has shape (4,)"));
    EXPECT_THAT(refused(v, other), HasSubstr("result 1 is f64"));
  }
}

TEST(Invoke, ListsTheOperandThatDiffersHoweverManyThereAre) {
  Tensors many(12, ones({2}));
  many[10] = ones({2}, cpu(1));
  EXPECT_THAT(message_of<ContextMismatch>([&] { concat(many, {.axis = 0}); }),
              AllOf(HasSubstr("input 7 cpu(0) (2,) f32, ..., input 10 cpu(1) (2,) f32, ... "
                              "(12 operands); move one first: input 10.as_in_context(cpu(0))")));
}

TEST(OpDef, ResultsAreAllowedOverTheFirst32Inputs) {
  OpDef<> op("over_inputs_of_this_test");
  op.no_gradient("of a test").no_samples("of a test");
  op.over_input(31);
  EXPECT_EQ(op.op().over_inputs, 1u << 31);
  for (int i : {-1, 32})
    EXPECT_THAT(message_of<ValueError>([&] { op.over_input(i); }), HasSubstr("expected 0 to 31"));
}

TEST(Invoke, WhereTakesAsManyInputsAsItHasNoNumbers) {
  const Op& where = get_op("where");
  const Sample s = where.samples(cpu(), f32)[0];
  Tensor out;
  const std::vector<Ref> in{s.inputs[0], s.inputs[1]};
  EXPECT_THROW(detail::invoke(where, in, s.attrs.view(), nullptr, {&out, 1}), ValueError);
}

// A host function: the sum of its inputs' means, on any contexts.
void sum_of_means(std::span<const Ref> in, const NoAttrs&, std::span<Tensor> out) {
  Tensor total = in[0].tensor_->mean();
  for (const Ref& r : in.subspan(1))
    total = invoke(get_op("add"), {total, r.tensor_->mean().as_in_context(total.context())},
                   BinaryAttrs());
  out[0] = total;
}

TEST(Invoke, AFunctionIsDifferentiatedThroughTheOpsItCalls) {
  static const Op& op = OpDef("sum_of_means")
                            .inputs(1, Op::kAny)
                            .function<&sum_of_means>()
                            .no_gradient("through its ops")
                            .no_samples("of this test");
  const Tensor x = ones({4}, cpu(0)), y = ones({2}, distinct_contexts().back());
  x.attach_grad();
  y.attach_grad();
  Tensor z;
  {
    const autograd::Record record;
    z = invoke(op, {x, y});
  }
  EXPECT_EQ(values(z), std::vector<double>{2});
  z.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>(4, .25));
  EXPECT_EQ(values(y.grad()), std::vector<double>(2, .5));
  EXPECT_EQ(y.grad().context(), y.context());
}

TEST(Invoke, AnOpWithoutInputsRunsWhereItsTargetIs) {
  for (Context c : contexts()) {
    const Tensor target = zeros({3}, c);
    invoke(get_op("fill"), Refs{}, FillAttrs{2, make_meta(f32, Shape{3})}, target);
    EXPECT_EQ(values(target), std::vector<double>(3, 2)) << c;
  }
}

TEST(Invoke, PinnedOperandsMixWithTheHostsWhateverTheirDTypes) {
  const Tensor a = full({3}, 1.5, {cpu(0), f32}), b = full({3}, 2, {cpu_pinned(), f64});
  EXPECT_EQ(values(a + b), std::vector<double>(3, 3.5));
  EXPECT_EQ((a + b).dtype(), f64);
  Tensor x = full({3}, 1, {cpu(0), f64});
  x += full({3}, 2, {cpu_pinned(), i32});
  EXPECT_EQ(values(x), std::vector<double>(3, 3));
  EXPECT_THROW(a + ones({3}, {cpu(1), f64}), ContextMismatch);
}

}  // namespace
}  // namespace locus::test
