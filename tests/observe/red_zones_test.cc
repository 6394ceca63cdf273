// LOCUS_MEMORY=redzones. Each check runs in a child, which starts the program anew with the
// variable.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/memory_tools.h>
#include <locus/core/op.h>
#include <locus/core/scratch.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::Not;

class RedZonesDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("LOCUS_MEMORY", "redzones", 1);
  }
  void TearDown() override {
    unsetenv("LOCUS_MEMORY");
    GTEST_FLAG_SET(death_test_style, style_);
  }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

char* bytes_of(const Tensor& x) { return static_cast<char*>(x.impl().view.data); }

// Writes n bytes at the address, on the stream.
void write(Context c, void* at, size_t n, StreamView s) {
  const std::string values(n, '\1');
  device(c).copy(at, c, values.data(), cpu(), n, s);
}
void write(Context c, void* at, size_t n) { write(c, at, n, device(c).stream(Lane::compute)); }

// The text of MemoryError, on stderr; "whole" if f throws none.
void print_damage(const std::function<void()>& f) {
  try {
    f();
    std::fputs("whole\n", stderr);
  } catch (const MemoryError& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
}
[[noreturn]] void exit_with_damage(const std::function<void()>& f) {
  print_damage(f);
  std::_Exit(7);
}

TEST_F(RedZonesDeathTest, ALiveBlockIsNamedOnce) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto overrun = [&] {
      const MemoryScope scope("step");
      const Tensor x = ones({3}, c), sum = x + x;
      write(c, bytes_of(sum) + 13, 2);
      print_damage([] { wait_all(); });
      print_damage([] { wait_all(); });
    };
    EXPECT_EXIT(exit_with_damage(overrun), ExitedWithCode(7),
                AllOf(HasSubstr("memory outside of 1 block was written"),
                      HasSubstr(text_of("a block of 12 bytes on ", c, ", for add at ")),
                      HasSubstr("red_zones_test.cc:"), HasSubstr("in scope step: "),
                      HasSubstr("2 wrong bytes after its end, the first at offset 13"),
                      Not(HasSubstr("freed")), HasSubstr("whole\n")));
  }
}

TEST_F(RedZonesDeathTest, AFreedBlockIsReadAfterTheWorkOnIt) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto underrun = [&] {
      {
        const Tensor x = ones({256, 256}, c);
        for (int i = 0; i < 4; ++i) static_cast<void>(dot(x, x));
        write(c, bytes_of(x) - 4, 1);
      }
      const Tensor reused = ones({256, 256}, c);
      check_red_zones();
    };
    EXPECT_EXIT(
        exit_with_damage(underrun), ExitedWithCode(7),
        AllOf(HasSubstr("a block of 262144 bytes"), HasSubstr("for fill at "),
              HasSubstr("1 wrong byte before its start, the first at offset -4; found when it was "
                        "freed")));
  }
}

TEST_F(RedZonesDeathTest, ABlockOfAStreamThatIsClosedIsChecked) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto overrun = [&] {
      Tensor live, freed;
      {
        Stream stream(c);
        const StreamScope scope(stream);
        live = ones({3}, c);
        freed = ones({5}, c);
        write(c, bytes_of(live) + 12, 1, stream.view());
        write(c, bytes_of(freed) + 20, 1, stream.view());
      }
      freed = Tensor();
      wait_all();
    };
    EXPECT_EXIT(exit_with_damage(overrun), ExitedWithCode(7),
                AllOf(HasSubstr("outside of 2 blocks"), HasSubstr("a block of 12 bytes"),
                      HasSubstr("a block of 20 bytes")));
  }
}

TEST_F(RedZonesDeathTest, ABlockThatAnotherStreamUsesIsReadAfterThisUse) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto overrun = [&] {
      Stream stream(c);
      {
        const Tensor x = ones({256, 256}, c);
        const StreamScope scope(stream);
        for (int i = 0; i < 4; ++i) static_cast<void>(dot(x, x));
        write(c, bytes_of(x) + 262144 + 511, 1, stream.view());
        static_cast<void>(x + 1);
      }
      wait_all();
    };
    EXPECT_EXIT(exit_with_damage(overrun), ExitedWithCode(7),
                HasSubstr("1 wrong byte after its end, the first at offset 262655"));
  }
}

TEST_F(RedZonesDeathTest, MemoryOfRecordedWorkIsChecked) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto overrun = [&] {
      Compiled f([](const Tensors& in) { return Tensors{in[0] * 2 + 1}; });
      const Tensor x = ones({3}, c);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(sum(f({x})[0]).item<float>(), 9);
      print_damage([] { wait_all(); });
      const Tensor y = f({x})[0];
      write(c, bytes_of(y) + 12, 1);
      wait_all();
    };
    EXPECT_EXIT(exit_with_damage(overrun), ExitedWithCode(7),
                AllOf(HasSubstr("whole\n"), HasSubstr("after its end, the first at offset 12")));
  }
}

// Writes a byte beyond its scratch memory.
void overrun_scratch(const Call& call) {
  const Scratch scratch(call, 8);
  scratch.as<char>()[8] = 0;
  std::fill_n(call.out[0].as<float>(), call.out[0].meta.size(), 1.0F);
}
DType infer_same(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return in[0].dtype;
}

TEST_F(RedZonesDeathTest, ScratchMemoryNamesItsOp) {
  for (Context c : contexts()) {
    if (device(c).kernels() != DeviceType::cpu) continue;  // the kernel runs on the host
    SCOPED_TRACE(to_string(c));
    const auto overrun = [&] {
      const Op& op = OpDef("scratch_overrun", {"x"})
                         .infer<&infer_same>()
                         .no_gradient("writes ones")
                         .no_samples("writes outside of its memory")
                         .kernel(DeviceType::cpu, f32, &overrun_scratch);
      static_cast<void>(invoke(op, {ones({2}, c)}));
      wait_all();
    };
    EXPECT_EXIT(exit_with_damage(overrun), ExitedWithCode(7),
                AllOf(HasSubstr("a block of 8 bytes on cpu(0), for scratch_overrun at "),
                      HasSubstr("offset 8; found when it was freed")));
  }
}

TEST_F(RedZonesDeathTest, BlocksKeepTheirAlignment) {
  const auto check = [] {
    bool aligned = true;
    for (Context c : contexts())
      for (const int64_t n : {0, 1, 3, 1000, 3000000}) {
        const Tensor x = ones({n}, c);
        aligned =
            aligned && reinterpret_cast<uintptr_t>(bytes_of(x)) % (is_host(c) ? 64 : 256) == 0;
      }
    wait_all();
    if (!aligned) std::_Exit(1);
  };
  EXPECT_EXIT(exit_with_damage(check), ExitedWithCode(7), HasSubstr("whole"));
}

TEST_F(RedZonesDeathTest, ThreadsAllocateWhileAnotherChecks) {
  const auto work = [] {
    for (Context c : contexts()) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
          Tensor x = ones({17}, c);
          for (int k = 0; k < 100; ++k) x = x * 1 + 0;
        });
      for (int k = 0; k < 20; ++k) wait_all();
      for (std::thread& t : threads) t.join();
    }
    wait_all();
  };
  EXPECT_EXIT(exit_with_damage(work), ExitedWithCode(7), HasSubstr("whole"));
}

TEST_F(RedZonesDeathTest, DamageThatNoCallHasThrownIsPrintedAtTheEnd) {
  const auto overrun = [] {
    Tensor& x = *new Tensor(ones({3}));  // lives until the end
    write(cpu(), bytes_of(x) + 12, 1);
    std::exit(7);
  };
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the leak is an error of AddressSanitizer";
#endif
  EXPECT_EXIT(overrun(), ExitedWithCode(7),
              HasSubstr("LOCUS_MEMORY=redzones: memory outside of 1 block was written"));
}

TEST(RedZones, AreKnownOnlyIfTheProgramAskedForThem) {
  if (const char* const set = std::getenv("LOCUS_MEMORY"); set && *set)
    GTEST_SKIP() << "needs a run without LOCUS_MEMORY";
  EXPECT_THAT(message_of<Error>([] { check_red_zones(); }),
              HasSubstr("check_red_zones: the blocks have no red zones; run the program with "
                        "LOCUS_MEMORY=redzones"));
}

}  // namespace
}  // namespace locus::test
