// RawKernel and RawModule on a fake GPU: arguments, contexts, order, captures, errors.
#include <locus/ops/raw_kernels.h>

#include <fstream>

#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/create.h>
#include <locus/ops/raw/module.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"
#include "tests/support/folder.h"
#include "tests/user_kernels/fake_gpu.h"

namespace locus {
namespace {

using test::fake_gpu;
using test::fake_gpu_state;
using test::FakePair;
using test::message_of;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;

class RawKernelCalls : public testing::Test {
 protected:
  void SetUp() override { test::reset_fake_gpu(); }

  static Tensor on(Context c, std::initializer_list<float> list) { return array(list).copyto(c); }
  // A module of this text. The name makes the text its own.
  static RawModule module_named(const std::string& name) { return RawModule("add scale " + name); }

  const Context gpu_ = fake_gpu();
};

TEST_F(RawKernelCalls, PassTensorsAndNumbers) {
  const RawKernel add("add: pass", "add");
  const Tensor x = on(gpu_, {1, 2, 3}), y = on(gpu_, {10, 20, 30}), z = on(gpu_, {0, 0, 0});
  add({.grid = {2}, .block = {2}}, {read(x), read(y), z, 3});
  EXPECT_THAT(values(z), ElementsAre(11, 22, 33));
  add({.block = {2}}, {z, z, z, 3});  // too few threads
  EXPECT_THAT(values(z), ElementsAre(22, 44, 33));
  EXPECT_THAT(fake_gpu_state.launched, ElementsAre("add", "add"));
  EXPECT_EQ(fake_gpu_state.built, 1);
  EXPECT_EQ(add.name(), "add");
}

TEST_F(RawKernelCalls, PassStructsBoolsAndPointers) {
  const RawKernel scale("scale: structs", "scale");
  const Tensor x = on(gpu_, {0, 7});
  scale({}, {x, 2.5, FakePair{4, 0.5f}, true});
  EXPECT_THAT(values(x), ElementsAre(11.5, 7));
  scale({.context = gpu_}, {static_cast<float*>(x.data_ptr()) + 1, 2.5, FakePair{4, 0.5f}, false});
  EXPECT_THAT(values(x), ElementsAre(11.5, 10.5));
}

TEST_F(RawKernelCalls, PassTheShapeOfTheLaunch) {
  const RawKernel add("add: shape", "add");
  const Tensor x = on(gpu_, {1});
  add({.grid = {2, 3, 4}, .block = {8, 4, 2}, .shared = 2048, .cooperative = false}, {x, x, x, 0});
  const LaunchShape& shape = fake_gpu_state.shapes.at(0);
  EXPECT_EQ(shape.grid.x, 2);
  EXPECT_EQ(shape.grid.z, 4);
  EXPECT_EQ(shape.block.y, 4);
  EXPECT_EQ(shape.shared, 2048);
}

TEST_F(RawKernelCalls, ForAllCoversAllElements) {
  const RawKernel add("add: for_all", "add");
  for (const auto& [n, blocks] : {std::pair(1, 1), {128, 1}, {129, 2}, {1000, 8}}) {
    const Tensor x = ones({n}).copyto(gpu_), z = zeros({n}).copyto(gpu_);
    add.for_all(n, {read(x), read(x), z, n});
    EXPECT_EQ(values(z), std::vector<double>(static_cast<size_t>(n), 2));
    EXPECT_EQ(fake_gpu_state.shapes.back().grid.x, blocks);
    EXPECT_EQ(fake_gpu_state.shapes.back().block.x, 128);
  }
}

TEST_F(RawKernelCalls, ForAllTakesOptionsOfTheLaunch) {
  float result = 0;
  const RawKernel scale("scale: for_all", "scale");
  scale.for_all(1000, {&result, 1.0, FakePair{3, 0}, false}, {.shared = 2048, .context = gpu_});
  EXPECT_EQ(result, 3);
  const LaunchShape& shape = fake_gpu_state.shapes.at(0);
  EXPECT_EQ(shape.grid.x, 8);
  EXPECT_EQ(shape.block.x, 128);
  EXPECT_EQ(shape.shared, 2048);
  for (const RawLaunch& launch : {RawLaunch{.grid = {2}}, RawLaunch{.block = {64}}})
    EXPECT_THAT(message_of<ValueError>([&] {
                  scale.for_all(1, {&result, 1.0, FakePair{4, 0}, false}, launch);
                }),
                HasSubstr("for_all chooses it: leave it out"));
  EXPECT_EQ(result, 3);
}

TEST_F(RawKernelCalls, ForAllOfNothingLaunchesNothing) {
  const RawKernel add("add: none", "add");
  const Tensor x = on(gpu_, {1});
  add.for_all(0, {x, x, x, 0});
  EXPECT_THAT(fake_gpu_state.launched, ElementsAre());
  EXPECT_THAT(message_of<ValueError>([&] {
                add.for_all(-1, {x, x, x, 0});
              }),
              HasSubstr("add: for_all of -1 threads; expected 0 or more"));
  EXPECT_THAT(message_of<ValueError>([&] { add.for_all(0, {x}); }), HasSubstr("1 argument: 0 ("));
  EXPECT_THAT(message_of<ValueError>([&] {
                add.for_all(int64_t{1} << 40, {x, x, x, 0});
              }),
              HasSubstr("add: the grid is (8589934592, 1, 1)"));
}

// --- Contexts.

TEST_F(RawKernelCalls, CompileOnceForEachContext) {
  const RawKernel add("add: contexts", "add");
  const RawKernel same("add: contexts", "add"), copy = add;
  for (int round = 0; round < 2; ++round)
    for (const int i : {0, 1}) {
      const Tensor x = on(fake_gpu(i), {1, 2}), z = on(fake_gpu(i), {0, 0});
      for (const RawKernel& k : {add, same, copy}) {
        k.for_all(2, {x, x, z, 2});
        EXPECT_THAT(values(z), ElementsAre(2, 4));
      }
    }
  EXPECT_EQ(fake_gpu_state.built, 2);
}

TEST_F(RawKernelCalls, RefuseTensorsOnSeveralContexts) {
  const RawKernel add("add: mixed", "add");
  const Tensor x = on(gpu_, {1}), y = on(fake_gpu(1), {1});
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                add({}, {x, 1, y, x});
              }),
              HasSubstr("add: arguments live on different contexts: 0 (fake_gpu(0) (1,) f32) and 2 "
                        "(fake_gpu(1) (1,) f32); move one first: x.as_in_context(fake_gpu(0))"));
  EXPECT_THAT(
      message_of<ContextMismatch>([&] {
        add({.context = fake_gpu(1)}, {x, x, x, 1});
      }),
      HasSubstr("add: the launch is on fake_gpu(1), and argument 0 (fake_gpu(0) (1,) f32)"));
  EXPECT_THAT(fake_gpu_state.launched, ElementsAre());
}

TEST_F(RawKernelCalls, RunWithoutTensorsWhereTheLaunchSays) {
  float result = 0;
  const RawKernel scale("scale: no tensors", "scale");
  scale({.context = gpu_}, {&result, 1.0, FakePair{3, 0}, false});
  EXPECT_EQ(result, 3);
  const ContextScope scope(gpu_);
  scale({}, {&result, 1.0, FakePair{4, 0}, false});
  EXPECT_EQ(result, 4);
}

TEST_F(RawKernelCalls, RunIfAllWrittenTensorsAreEmpty) {
  const RawKernel add("add: empty", "add");
  const Tensor x = on(gpu_, {1}), none = empty({0}, gpu_);
  add({}, {read(x), read(x), none, 0});
  add({}, {read(x), read(x), read(x), 0});
  EXPECT_EQ(fake_gpu_state.launched.size(), 2u);
}

TEST_F(RawKernelCalls, AreRefusedOnHostsAndEmulatedGpus) {
  const RawKernel add("add: refused", "add");
  const auto refused = [&](Context c) {
    const Tensor x = ones({2}, c);
    add.for_all(2, {x, x, x, 2});
  };
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { refused(cpu(0)); }),
              HasSubstr("add: kernels from CUDA C++ run on GPUs, and cpu(0) is no GPU; an "
                        "ElementwiseKernel runs on every context"));
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { add({}, {}); }),
              HasSubstr("cpu(0) is no GPU"));
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { add.attributes(cpu(0)); }),
              HasSubstr("cpu(0) is no GPU"));
  if (!test::emulated_gpus()) return;
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { refused(gpu(0)); }),
              HasSubstr("add: kernels from CUDA C++ run on GPUs, and gpu(0) is an emulated GPU"));
}

// --- Arguments that are refused. Nothing is launched or written.

TEST_F(RawKernelCalls, RefuseOtherArguments) {
  const RawKernel add("add: arguments", "add");
  const Tensor x = on(gpu_, {1});
  EXPECT_THAT(message_of<ValueError>([&] {
                add({}, {x, x, x});
              }),
              HasSubstr("add: 3 arguments: 0 (fake_gpu(0) (1,) f32), "));
  EXPECT_THAT(message_of<ValueError>([&] {
                add({}, {x, x, x, int64_t{1}});
              }),
              HasSubstr("add: argument 3 (i64, 8 bytes); the kernel's parameter 3 has 4 bytes"));
  EXPECT_THAT(message_of<EmptyTensor>([&] {
                add({}, {x, x, Tensor(), 1});
              }),
              HasSubstr("add: argument 2 is an empty Tensor"));
  EXPECT_THAT(fake_gpu_state.launched, ElementsAre());
  EXPECT_THAT(values(x), ElementsAre(1));
}

TEST_F(RawKernelCalls, RefuseMoreThan256Arguments) {
  const raw::Function* const add =
      &raw::Module::of({.name = "add", .text = "add: many", .code = "", .options = {}})
           .get("add", "");
  const std::vector<RawArg> all(257, RawArg(nullptr));
  EXPECT_THAT(message_of<ValueError>([&] { add->launch({.context = gpu_}, all); }),
              HasSubstr("add: 257 arguments; expected at most 256"));
}

TEST_F(RawKernelCalls, RefuseTensorsThatAreNotContiguous) {
  const RawKernel add("add: strides", "add");
  const Tensor x = array({{1.0f, 2.0f}, {3.0f, 4.0f}}).copyto(gpu_), z = on(gpu_, {0, 0});
  EXPECT_THAT(message_of<ShapeError>([&] {
                add.for_all(2, {x.T(), x, z, 2});
              }),
              HasSubstr("add: argument 0 (fake_gpu(0) (2,2) f32) has gaps or another order; "
                        "expected a contiguous tensor; pass contiguous(x), and copy back what the "
                        "kernel writes; or any_layout(x), if"));
  add.for_all(2, {read(any_layout(x.T())), any_layout(read(x(Slice(), 1))), z, 2});
  EXPECT_THAT(values(z), ElementsAre(1 + 2, 2 + 3));
  add.for_all(2, {read(x[1]), read(x[0]), z, 2});  // rows are contiguous
  EXPECT_THAT(values(z), ElementsAre(4, 6));
}

TEST_F(RawKernelCalls, CheckTheSignature) {
  const RawModule m = module_named("signature");
  const RawKernel add = m.get("add", "const f32* const f32* f32* i32");
  const Tensor x = on(gpu_, {1}), n = array({1}, i32).copyto(gpu_);
  add.for_all(1, {x, x, x, 1});
  EXPECT_THAT(values(x), ElementsAre(2));
  EXPECT_THAT(message_of<DTypeError>([&] {
                add.for_all(1, {x, n, x, 1});
              }),
              HasSubstr("add: argument 1 (fake_gpu(0) (1,) i32) is i32*; expected const f32*"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                add.for_all(1, {x, x, x, 1.0f});
              }),
              HasSubstr("add: argument 3 (f32, 4 bytes) is f32; expected i32"));
  EXPECT_THAT(message_of<ValueError>([&] { m.get("add", "f32* float4"); }),
              HasSubstr("add: the signature \"f32* float4\" has \"float4\""));
  EXPECT_THAT(
      message_of<ValueError>([&] { RawModule("add", {.signature = "f32*"}); }),
      HasSubstr("RawModule: a signature belongs to a kernel; give it to get(name, \"f32*\")"));
  const RawKernel other("add: with signature", "add", {.signature = "f32* f32* f32* f32"});
  EXPECT_THROW(other.for_all(1, {x, x, x, 1}), DTypeError);
}

// Registers, shared memory and cooperative launches of this kernel on this GPU.
TEST_F(RawKernelCalls, CheckWhatTheKernelNeeds) {
  const RawKernel add("add: needs", "add");
  const Tensor x = on(gpu_, {1});
  const auto refused = [&](const RawLaunch& launch) {
    return message_of<ValueError>([&] { add(launch, {x, x, x, 1}); });
  };
  EXPECT_THAT(refused({.block = {1024}}),
              HasSubstr("add: blocks of 1024 threads; on fake_gpu(0) the kernel runs with at most "
                        "512, for it needs 32 registers a thread; use smaller blocks"));
  EXPECT_THAT(refused({.shared = 100 << 10}),
              HasSubstr("add: 102400 bytes of dynamic shared memory; fake_gpu(0) has 101376 a "
                        "block, besides 1024 that the kernel declares; use less"));
  add({.grid = {4}, .shared = 99 << 10, .cooperative = true}, {x, x, x, 1});
  EXPECT_TRUE(fake_gpu_state.shapes.at(0).cooperative);
  EXPECT_THAT(refused({.grid = {5}, .cooperative = true}),
              HasSubstr("add: the grid is (5, 1, 1) in a cooperative launch; fake_gpu(0) runs at "
                        "most 4 such blocks at a time"));
  EXPECT_THAT(refused({.grid = {1, 2, 3}, .cooperative = true}), HasSubstr("(1, 2, 3)"));
  EXPECT_EQ(add.max_active_blocks(gpu_, {.block = {128}}), 4);
  EXPECT_EQ(add.attributes(gpu_).registers, 32);
  fake_gpu_state.kernels["add"].attributes.cooperative = false;
  const RawKernel without("add: without", "add");
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] {
                without({.cooperative = true}, {x, x, x, 1});
              }),
              HasSubstr("add: fake_gpu(0) has no cooperative launches"));
}

// --- Names.

TEST_F(RawKernelCalls, NameWhatTheModuleHas) {
  const RawKernel other = module_named("names").get("other");  // touches no device
  const Tensor x = on(gpu_, {1});
  EXPECT_THAT(message_of<ValueError>([&] { other({}, {x}); }),
              HasSubstr("other: the module has no such kernel on fake_gpu(0); it has add, scale; "
                        "expected extern \"C\" __global__ void other(...), or a name in"));
  EXPECT_THROW(other.attributes(gpu_), ValueError);
}

TEST_F(RawKernelCalls, NeedNameExpressionsForTemplates) {
  const RawModule m("add", {.name_expressions = {"add<float>", "ns::f"}});
  EXPECT_EQ(m.get("add<float>").name(), "add<float>");
  EXPECT_THAT(message_of<ValueError>([&] { m.get("add<int>"); }),
              HasSubstr("RawModule: there is no kernel \"add<int>\"; expected a function that is "
                        "extern \"C\", or a name expression (add<float>, ns::f); list others in"));
  EXPECT_EQ(RawKernel("add", "add<int>").name(), "add<int>");  // adds it
  EXPECT_THROW(RawKernel("add", ""), ValueError);
}

TEST_F(RawKernelCalls, ErrorsNameTheLineOfTheCall) {
  const RawModule m = module_named("lines");
  const RawKernel add = m.get("add"), broken("#error", "broken");
  const Tensor x = on(gpu_, {1});
  EXPECT_NAMES_ITS_LINE(add({}, {x}));
  EXPECT_NAMES_ITS_LINE(add.for_all(-1, {x}));
  EXPECT_NAMES_ITS_LINE(broken({}, {x}));
  EXPECT_NAMES_ITS_LINE(add.attributes(cpu(0)));
  EXPECT_NAMES_ITS_LINE(m.get("f<int>"));
  EXPECT_NAMES_ITS_LINE(m.get_global(gpu_, "none", f32));
  EXPECT_NAMES_ITS_LINE(m.set_global(gpu_, "none", x));
  EXPECT_NAMES_ITS_LINE(RawModule::load("/no/such/file"));
}

TEST_F(RawKernelCalls, FilesThatCannotBeReadAreRefused) {
  EXPECT_THAT(message_of<Error>([] { RawModule::load("/no/such.cubin"); }),
              HasSubstr("RawModule::load: /no/such.cubin cannot be read; expected a file of a"));
  const test::Folder folder;
  const std::string path = folder / "empty.ptx";
  std::ofstream{path};
  EXPECT_THAT(message_of<Error>([&] { RawModule::load(path); }), HasSubstr("empty.ptx is empty"));
}

// --- Beside the rest of Locus.

TEST_F(RawKernelCalls, AreRepeatedByReplays) {
  const RawKernel add("add: captured", "add");
  const Tensor x = on(gpu_, {1, 2}), w = on(gpu_, {100, 200}), z = on(gpu_, {0, 0});
  Capture capture(gpu_);
  add.for_all(2, {read(x), read(w), z, 2});
  {
    int n = 1;  // values are copied
    add({.block = {2}}, {read(z), read(w), z, n});
    n = 0;
  }
  Graph graph = capture.end();
  fake_gpu_state.launched.clear();
  for (float step = 1; step < 5; ++step) {
    array({step, 2 * step}).copyto(x);
    graph.replay();
    EXPECT_THAT(values(z), ElementsAre(step + 200, 2 * step + 200));
  }
  EXPECT_EQ(fake_gpu_state.launched.size(), 8u);
}

TEST_F(RawKernelCalls, CountAsWritesUnlessTheyOnlyRead) {
  const RawKernel add("add: versions", "add");
  const Tensor x = on(gpu_, {1}), z = on(gpu_, {0});
  const auto version = [](const Tensor& t) { return t.impl().storage->version(); };
  const uint64_t x_before = version(x), z_before = version(z);
  add.for_all(1, {read(x), read(x), z, 1});
  EXPECT_EQ(version(x), x_before);
  EXPECT_EQ(version(z), z_before + 1);
  add.for_all(1, {x, x, z, 1});  // one write of each buffer
  EXPECT_EQ(version(x), x_before + 1);
  const RawKernel typed("add: versions", "add", {.signature = "const f32* const f32* f32* i32"});
  typed.for_all(1, {x, x, z, 1});
  EXPECT_EQ(version(x), x_before + 1);
}

TEST_F(RawKernelCalls, HaveNoGradients) {
  const RawKernel add("add: gradients", "add");
  const Tensor x = on(gpu_, {1}), z = on(gpu_, {0});
  const Tensor w = on(gpu_, {1});
  w.attach_grad(on(gpu_, {0}));
  add.for_all(1, {read(w), read(x), z, 1});
  const autograd::Record record;
  add.for_all(1, {read(x), read(x), z, 1});
  EXPECT_THAT(
      message_of<Error>([&] {
        add.for_all(1, {read(w), read(x), z, 1});
      }),
      HasSubstr("add: argument 0 (fake_gpu(0) (1,) f32) needs a gradient, and a kernel from "
                "source text has none; pass x.detach()"));
  add.for_all(1, {read(w.detach()), read(x), z, 1});
  EXPECT_EQ(fake_gpu_state.launched.size(), 3u);
}

}  // namespace
}  // namespace locus
