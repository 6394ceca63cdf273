// What recording keeps and what a backward pass computes.
#include <locus/core/tape/tape.h>

#include <cstdlib>
#include <functional>
#include <new>

#include <locus/core/autograd.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"
#include "tests/support/launches.h"

namespace {
thread_local int allocations = 0;
}

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace locus::test {
namespace {

Tensor leaf(std::initializer_list<float> v, Context c = cpu()) {
  Tensor x = array(v, c);
  x.attach_grad();
  return x;
}

template <class F>
Tensor recorded(F f) {
  const autograd::Record record;
  return f();
}

void increment(Tensor x) { x += 1; }

std::vector<float> floats(const Tensor& x) { return x.to_vector<float>(); }

TEST(Tape, AMaskNamesOperandsOneByOne) {
  constexpr Keep k = keep_input(0) | keep_input(2) | keep_output(1);
  static_assert(k.input(0) && !k.input(1) && k.input(2) && !k.output(0) && k.output(1));
  static_assert(Keep::both.input(100) && Keep::both.output(100) && !k.input(100));
  static_assert(!keep_inputs_from(1).input(0) && keep_inputs_from(1).input(40));
  static_assert(Keep::none == Keep{} && (Keep::inputs | Keep::outputs) == Keep::both);
}

TEST(Tape, KeepsNoOperandThatItsGradientDoesNotRead) {
  for (Context c : contexts()) {
    const Tensor x = array({1.f, 2.f, 3.f}, c), ids = array({2, 0}, c);
    const Tensor rows = array({{1.f, 2.f}, {3.f, 4.f}}, c), mask = x != 2;
    x.attach_grad();
    rows.attach_grad();
    Tensor taken, again, picked, chosen;
    {
      const autograd::Record record;
      taken = x.take(ids);
      again = x.take(ids);
      picked = pick(rows, array({0, 0}, c));
      chosen = where(mask, x, 0);
    }
    increment(x);  // neither take nor where reads its values
    increment(rows);
    taken.backward();
    EXPECT_EQ(floats(x.grad()), (std::vector<float>{1, 0, 1}));
    picked.backward();
    EXPECT_EQ(floats(rows.grad()), (std::vector<float>{1, 0, 1, 0}));
    chosen.backward();
    EXPECT_EQ(floats(x.grad()), (std::vector<float>{1, 0, 1}));
    increment(ids);
    const std::string text = message_of<Error>([&] { again.backward(); });
    EXPECT_NE(text.find("in place"), std::string::npos) << text;
  }
}

TEST(Tape, LetsGoOfTheMemoryOfWhatItDoesNotKeep) {
  Tensor y;
  std::weak_ptr<Storage> memory;
  {
    const Tensor w = leaf({1, 2, 3});
    const autograd::Record record;
    const Tensor x = w * 2;
    memory = x.impl().storage;
    y = x.take(array({0}));
  }
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(floats(y), std::vector<float>{2});
}

int fewest_allocations(const std::function<Tensor()>& f) {
  int fewest = 1 << 30;
  for (int i = 0; i < 8; ++i) {
    const int before = allocations;
    const Tensor y = f();
    fewest = std::min(fewest, allocations - before);
  }
  return fewest;
}

TEST(Tape, ARecordedCallTakesOneAllocationMore) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  for (const std::function<Tensor()>& f : {std::function<Tensor()>([&] { return x + y; }),
                                           {[&] { return x * y; }},
                                           {[&] { return x / y; }},
                                           {[&] { return exp(x); }},
                                           {[&] {
                                             return x.reshape({2, 1});
                                           }}}) {
    const int plain = fewest_allocations(f);
    const autograd::Record record;
    EXPECT_EQ(fewest_allocations(f), plain + 1);
  }
}

// y0 = x + 1, y1 = x * 2; says which gradients arrived.
int arrived = 0;

Tensors two_gradient(const Saved& saved, std::span<const Tensor> dout) {
  arrived = (dout[0].defined() ? 1 : 0) + (dout[1].defined() ? 2 : 0);
  EXPECT_EQ(Shape(saved.out_meta(1)), saved.in_shape(0));
  if (!dout[0].defined()) return {dout[1] * 2};
  return {dout[1].defined() ? dout[0] + dout[1] * 2 : dout[0]};
}
DType two_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = out[1] = in[0];
  return in[0].dtype;
}
Samples two_samples(Context c, DType d) { return {Sample({sample_values(c, d, {3})})}; }
template <class T>
void two_kernel(const Call& call) {
  for (int64_t i = 0; i < call.in[0].meta.size(); ++i) {
    call.out[0].as<T>()[i] = call.in[0].as<T>()[i] + 1;
    call.out[1].as<T>()[i] = call.in[0].as<T>()[i] * 2;
  }
}
const Op& two_op() {
  static const Op& op = OpDef("test_two", {"x"})
                            .outputs(2)
                            .infer<&two_infer>()
                            .gradient<&two_gradient>(Keep::none)
                            .samples<&two_samples>()
                            .kernel(DeviceType::cpu, f32, &two_kernel<float>)
                            .kernel(DeviceType::cpu, f64, &two_kernel<double>);
  return op;
}

TEST(Tape, TheGradientOfAnUnusedResultIsUndefinedAndNotFilled) {
  const Tensor x = leaf({1, 2});
  const Ref in[] = {x};
  for (int used = 0; used < 2; ++used) {
    const Tensor y = recorded([&] { return invoke_all(two_op(), in)[size_t(used)]; });
    const Launches fills("fill");
    y.backward();
    EXPECT_EQ(arrived, used + 1);
    EXPECT_EQ(fills(), 1);  // the head's ones
    EXPECT_EQ(floats(x.grad()), (std::vector<float>(2, used + 1.f)));
  }
  const Tensor both = recorded([&] {
    const Tensors y = invoke_all(two_op(), in);
    return y[0] + y[1];
  });
  both.backward();
  EXPECT_EQ(arrived, 3);
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{3, 3}));
}

TEST(Tape, GradComputesOnlyWhatLeadsToItsVariables) {
  const Tensor x = leaf({1, 2, 3}).reshape({1, 3}), w = ones({3, 3});
  x.attach_grad();
  w.attach_grad();
  const auto head = [&] { return dot(exp(dot(x, w)), w); };
  const Tensor y = recorded(head);
  const Launches<0> products("matmul");
  const Launches<1> exps("multiply");
  autograd::grad(y, {x}, {.retain_graph = true});
  EXPECT_EQ(products(), 2);  // not those for w
  autograd::grad(y, {w}, {.retain_graph = true});
  EXPECT_EQ(products(), 2 + 3);  // not the one for x
  Tensor middle;
  const Tensor z = recorded([&] {
    middle = exp(x);
    return middle * 3;
  });
  const int before = exps();
  EXPECT_EQ(floats(autograd::grad(z, {middle})[0]), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(exps(), before + 1);                                      // not exp's
  EXPECT_EQ(floats(autograd::grad(middle, {x})[0]), floats(exp(x)));  // exp's graph still exists
}

// x^2 with a gradient by ops and one that is not differentiable.
int composed = 0, fused = 0;

Tensors square_composed(const Saved& s, std::span<const Tensor> dout) {
  ++composed;
  return {dout[0] * s.in(0) * 2};
}
Tensors square_fused(const Saved& s, std::span<const Tensor> dout) {
  ++fused;
  return {(dout[0] * s.in(0).detach() * 2).detach()};
}
DType same_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return in[0].dtype;
}
template <class T>
void square_kernel(const Call& call) {
  for (int64_t i = 0; i < call.in[0].meta.size(); ++i)
    call.out[0].as<T>()[i] = call.in[0].as<T>()[i] * call.in[0].as<T>()[i];
}

TEST(Tape, CoreChoosesBetweenAComposedAndAFusedGradient) {
  static const Op& op = OpDef("test_square", {"x"})
                            .infer<&same_infer>()
                            .gradient<&square_composed>(Keep::inputs)
                            .fused_gradient<&square_fused>()
                            .samples<&two_samples>()
                            .kernel(DeviceType::cpu, f32, &square_kernel<float>)
                            .kernel(DeviceType::cpu, f64, &square_kernel<double>);
  const Tensor x = leaf({1, 2});
  recorded([&] { return invoke(op, {x}); }).backward();
  EXPECT_EQ(composed, 0);
  EXPECT_EQ(fused, 1);
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{2, 4}));
  const Tensor y = recorded([&] { return invoke(op, {x}); });
  const Tensor g = autograd::grad(y, {x}, {.create_graph = true})[0];
  EXPECT_EQ(composed, 1);
  EXPECT_EQ(floats(autograd::grad(g, {x})[0]), (std::vector<float>{2, 2}));
}

Tensors no_gradients(const Saved&, std::span<const Tensor>) { return {}; }
Tensors sum_gradient(const Saved&, std::span<const Tensor> dout) { return {dout[0].sum()}; }

TEST(Tape, AWrongGradientIsNamedWithWhatToWrite) {
  const auto define = [](const char* name) {
    return OpDef(name, {"x"})
        .infer<&same_infer>()
        .kernel(DeviceType::cpu, f32, &square_kernel<float>)
        .kernel(DeviceType::cpu, f64, &square_kernel<double>);
  };
  static const Op &none = define("test_none").gradient<&no_gradients>(Keep::none),
                  &shape = define("test_shape").gradient<&sum_gradient>(Keep::none),
                  &constant = define("test_constant");
  const Tensor x = leaf({1, 2});
  const auto text = [&](const Op& op) {
    return test::message_of<Error>([&] { recorded([&] { return invoke(op, {x}); }).backward(); });
  };
  EXPECT_THAT(text(none),
              testing::HasSubstr("test_none gave 0 tensors for 1 inputs; it must return "
                                 "one per input"));
  EXPECT_THAT(text(shape),
              testing::HasSubstr("test_shape has shape () for input 0 of shape (2,); return it in "
                                 "the shape of the input, or declare the op's .broadcasts()"));
  EXPECT_THAT(text(constant), testing::HasSubstr(".gradient<&f>(keep)"));
}

// x + 1 with a separate gradient for heads, which counts its calls.
int at_heads = 0;
Tensors same_gradient(const Saved&, std::span<const Tensor> dout) { return {dout[0]}; }
Tensors same_at_head(const Saved& s, std::span<const Tensor> dout) {
  EXPECT_FALSE(dout[0].defined());
  ++at_heads;
  return {ones(s.in_shape(0))};
}
void next_kernel(const Call& call) {
  for (int64_t i = 0; i < call.in[0].meta.size(); ++i)
    call.out[0].as<float>()[i] = call.in[0].as<float>()[i] + 1;
}

TEST(Tape, AHeadsGradientIsNotMadeForAnOpThatDoesWithout) {
  static const Op& op = OpDef("test_next", {"x"})
                            .infer<&same_infer>()
                            .gradient<&same_gradient>(Keep::none)
                            .head_gradient<&same_at_head>()
                            .no_samples("a test's")
                            .kernel(DeviceType::cpu, f32, &next_kernel);
  const Tensor x = leaf({1, 2});
  const Launches<0> fills("fill");
  const auto next = [&] { return invoke(op, {x}); };
  const auto gradients = [&] { return floats(x.grad()); };
  recorded(next).backward();
  EXPECT_EQ(at_heads, 1);
  EXPECT_EQ(fills(), 1);  // from same_at_head
  EXPECT_EQ(gradients(), (std::vector<float>{1, 1}));
  recorded(next).backward({.head_gradient = x});
  EXPECT_EQ(gradients(), (std::vector<float>{1, 2}));
  recorded([&] { return next() * 3; }).backward();
  EXPECT_EQ(gradients(), (std::vector<float>{3, 3}));
  Tensor y;
  const Tensor z = recorded([&] {
    y = next();
    return y * 3;
  });
  autograd::backward({y, z}, {.retain_graph = true});  // a head and an intermediate step
  EXPECT_EQ(gradients(), (std::vector<float>{4, 4}));
  autograd::backward({y, y}, {.retain_graph = true});  // twice a head
  EXPECT_EQ(gradients(), (std::vector<float>{2, 2}));
  EXPECT_EQ(floats(autograd::grad(y, {y}, {.retain_graph = true})[0]), (std::vector<float>{1, 1}));
  EXPECT_EQ(at_heads, 1);
  EXPECT_EQ(floats(autograd::grad(y, {x}, {.create_graph = true})[0]), (std::vector<float>{1, 1}));
  EXPECT_EQ(at_heads, 1);
}

TEST(Tape, BackwardFreesAsItWalks) {
  const Tensor x = leaf({1, 2});
  std::weak_ptr<Storage> memory;
  const Tensor y = recorded([&] {
    const Tensor h = x * 2;
    memory = h.impl().storage;
    return exp(h * h);
  });
  EXPECT_FALSE(memory.expired());
  y.backward();
  EXPECT_TRUE(memory.expired());
}

TEST(Tape, AskingAFreedGraphTwiceIsAnErrorTwice) {
  const Tensor x = ones({2});
  x.attach_grad();
  Tensor y, z;
  {
    const autograd::Record record;
    y = x * 2;
    z = y * y;
  }
  z.backward();
  EXPECT_THROW(z.backward(), Error);
  EXPECT_THROW(z.backward(), Error);
  EXPECT_THROW(autograd::grad({z}, {x}), Error);
  Tensor w;
  {
    const autograd::Record record;
    w = y * 3;
  }
  EXPECT_THROW(w.backward(), Error);
  EXPECT_THROW(autograd::grad({w}, {x}), Error);
}

}  // namespace
}  // namespace locus::test
