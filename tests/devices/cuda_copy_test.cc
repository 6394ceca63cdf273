// Copies between the host, pinned memory and real GPUs.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/devices/cuda_support.h"
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda/device.h>
#endif

namespace locus {
namespace {

#ifdef LOCUS_WITH_CUDA

using test::stall;
using testing::Each;

std::vector<float> ramp(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

// Around the sizes where the path changes: 64 KiB in one piece, chunks of 256 KiB to 2 MiB, more
// chunks than slots.
const size_t kSizes[] = {1, 1000, 16384, 16385, 65536, 131073, 524289, 3000000, 8000001};

TEST(CudaCopy, PageableMemoryMakesTheRoundTrip) {
  LOCUS_NEEDS_GPUS(1);
  for (const size_t n : kSizes) {
    const std::vector<float> values = ramp(n);
    EXPECT_EQ(array(values, gpu(0)).to_vector<float>(), values) << n;
  }
}

TEST(CudaCopy, PageableMemoryIsFreeWhenTheCallReturns) {
  LOCUS_NEEDS_GPUS(1);
  Device& d = device(gpu(0));
  for (const size_t n : kSizes) {
    std::vector<float> values = ramp(n);
    const size_t bytes = n * sizeof(float);
    const StreamView s = d.stream(Lane::to_device);
    void* p = d.allocator().allocate(bytes, s);
    stall(s);
    d.copy(p, gpu(0), values.data(), cpu(0), bytes, s);
    std::fill(values.begin(), values.end(), -1.0f);
    std::vector<float> back(n);
    d.copy(back.data(), cpu(0), p, gpu(0), bytes, s);
    EXPECT_EQ(back, ramp(n)) << n;
    d.allocator().deallocate(p, bytes, s);
  }
}

TEST(CudaCopy, ManySmallUploadsInARowKeepTheirOrder) {
  LOCUS_NEEDS_GPUS(1);
  Tensors all;
  for (int i = 0; i < 100; ++i) all.push_back(array(std::vector<float>(1000, 1.0f * i), gpu(0)));
  for (int i = 0; i < 100; ++i)
    EXPECT_THAT(all[static_cast<size_t>(i)].to_vector<float>(), Each(1.0f * i));
}

TEST(CudaCopy, PinnedMemoryIsPageLockedAndUsableByTheCpu) {
  LOCUS_NEEDS_GPUS(1);
  const StreamView host{cpu_pinned(), 0, nullptr};
  void* p = memory_pool(cpu_pinned()).allocate(1 << 16, host);
  cudaPointerAttributes attributes;
  LOCUS_CUDA(cudaPointerGetAttributes(&attributes, p));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  memory_pool(cpu_pinned()).deallocate(p, 1 << 16, host);
  EXPECT_THAT((ones({100}, cpu_pinned()) + 1.0f).to_vector<float>(), Each(2.0f));
}

TEST(CudaCopy, PinnedCopiesDoNotBlockTheHost) {
  LOCUS_NEEDS_GPUS(1);
  Device& d = device(gpu(0));
  const size_t bytes = 1 << 20;
  const StreamView host{cpu_pinned(), 0, nullptr}, s = d.stream(Lane::compute);
  MemoryPool& pinned = memory_pool(cpu_pinned());
  auto* h = static_cast<unsigned char*>(pinned.allocate(bytes, host));
  auto* back = static_cast<unsigned char*>(pinned.allocate(bytes, host));
  void* p = d.allocator().allocate(bytes, s);
  std::fill_n(h, bytes, static_cast<unsigned char>(42));
  std::fill_n(back, bytes, static_cast<unsigned char>(0));
  stall(s);
  d.copy(p, gpu(0), h, cpu_pinned(), bytes, s);
  d.copy(back, cpu_pinned(), p, gpu(0), bytes, s);
  const EventView end = d.record(s);
  EXPECT_FALSE(d.done(end)) << "the host waited";
  d.wait_host(end);
  EXPECT_TRUE(d.done(end));
  EXPECT_EQ(std::accumulate(back, back + bytes, size_t{0}), bytes * 42);
  d.release(end);
  d.allocator().deallocate(p, bytes, s);
  pinned.deallocate(h, bytes, host);
  pinned.deallocate(back, bytes, host);
}

TEST(CudaCopy, ATensorGoesThroughPinnedMemoryWithoutWaiting) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor h = array(ramp(5000), cpu_pinned());
  const Tensor d = h.copyto(gpu(0), {.blocking = false});
  const Tensor twice = d + d;
  const Tensor back = zeros({5000}, cpu_pinned());
  twice.copyto(back, {.blocking = false});
  std::vector<float> expected = ramp(5000);
  for (float& v : expected) v *= 2;
  EXPECT_EQ(back.to_vector<float>(), expected);
}

TEST(CudaCopy, PeersExchangeTheirBytes) {
  LOCUS_NEEDS_GPUS(2);
  for (const size_t n : kSizes) {
    const std::vector<float> values = ramp(n);
    const Tensor a = array(values, gpu(0));
    const Tensor b = a.copyto(gpu(1));
    EXPECT_EQ(b.context(), gpu(1));
    EXPECT_EQ(b.to_vector<float>(), values) << n;
    EXPECT_EQ(b.copyto(gpu(0)).to_vector<float>(), values) << n;
  }
}

TEST(CudaCopy, APeerCopyWaitsForTheWriteBeforeIt) {
  LOCUS_NEEDS_GPUS(2);
  Tensor a = zeros({1 << 20}, gpu(0));
  a += 1.0f;
  Stream slow(gpu(0));
  {
    const StreamScope on(slow);
    stall(slow.view());
    a += 1.0f;
  }
  const Tensor b = a.copyto(gpu(1));
  a += 5.0f;  // must wait for the copy
  EXPECT_THAT((b + 1.0f).to_vector<float>(), Each(3.0f));
  EXPECT_THAT(a.to_vector<float>(), Each(7.0f));
}

TEST(CudaCopy, EitherEndOfAPeerCopyMayOwnTheStream) {
  LOCUS_NEEDS_GPUS(2);
  const std::vector<float> values = ramp(300000);
  const Tensor a = array(values, gpu(0));
  device(gpu(0)).synchronize({});
  const size_t bytes = values.size() * sizeof(float);
  for (const int owner : {0, 1}) {
    const Tensor b = zeros({static_cast<int64_t>(values.size())}, gpu(1));
    device(gpu(1)).synchronize({});
    Device& d = device(gpu(owner));
    const StreamView s = d.stream(Lane::peer);
    d.copy(b.data_ptr(), gpu(1), a.data_ptr(), gpu(0), bytes, s);
    d.synchronize(s);
    EXPECT_EQ(b.to_vector<float>(), values) << "stream of gpu(" << owner << ")";
  }
}

// Resets links between GPUs before and after a test.
class CudaLink : public testing::Test {
 protected:
  void SetUp() override {
    LOCUS_NEEDS_GPUS(2);
    cuda::forget_links();
  }
  void TearDown() override {
    unsetenv("LOCUS_P2P");
    cuda::test_faults().corrupt_links = false;
    cuda::forget_links();
  }
  // The stderr of the first copies from gpu(0) to gpu(1); the data must arrive.
  std::string first_copies() {
    testing::internal::CaptureStderr();
    for (const size_t n : kSizes) {
      const std::vector<float> values = ramp(n);
      const Tensor a = array(values, gpu(0));
      EXPECT_EQ(a.copyto(gpu(1)).to_vector<float>(), values) << n;
    }
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(CudaLink, ThatLiesIsFoundOutAndNothingIsLost) {
  cuda::test_faults().corrupt_links = true;
  const std::string said = first_copies();
  EXPECT_NE(said.find("gpu(0) to gpu(1) go through the host: a direct copy delivered other bytes"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("locus:"), said.rfind("locus:")) << "said more than once: " << said;
}

TEST_F(CudaLink, MayBeTurnedOff) {
  setenv("LOCUS_P2P", "off", 1);
  EXPECT_NE(first_copies().find("LOCUS_P2P=off"), std::string::npos);
  cuda::forget_links();
  setenv("LOCUS_P2P", "perhaps", 1);
  EXPECT_THROW(ones({4}, gpu(0)).copyto(gpu(1)), Error);
}

TEST(CudaCopy, WithoutPageLockedMemoryTheRingThrowsAndIsThereLater) {
  LOCUS_NEEDS_GPUS(1);
  std::vector<float> values = ramp(1000000), back(values.size());
  const size_t bytes = values.size() * sizeof(float);
  const Tensor d = zeros({1000000}, gpu(0));
  cuda::Ring ring(gpu(0));
  Stream s(gpu(0));
  const auto native = static_cast<cudaStream_t>(s.view().native);
  void* p = d.data_ptr();
  device(gpu(0)).synchronize({});
  cuda::test_faults().no_pinned_memory = true;
  std::string text;
  try {
    ring.upload(p, values.data(), bytes, native);
  } catch (const OutOfMemory& e) {
    text = e.what();
  }
  EXPECT_THROW(ring.download(back.data(), p, bytes, native), OutOfMemory);
  cuda::test_faults().no_pinned_memory = false;
  EXPECT_NE(text.find("ring through which gpu(0) copies pageable memory"), std::string::npos)
      << text;
  EXPECT_THAT(d.to_vector<float>(), Each(0.0f));
  ring.upload(p, values.data(), bytes, native);
  s.synchronize();
  EXPECT_EQ(d.to_vector<float>(), values);
  ring.download(back.data(), p, bytes, native);
  EXPECT_EQ(back, values);
}

TEST(CudaCopy, AnUploadDoesNotWaitForComputeOnOtherTensors) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = ones({1000}, gpu(0));
  const Tensor warm = x + 1.0f;
  const std::vector<float> values = ramp(2000000);
  const Tensor h = array(values);
  static_cast<void>(h.copyto(gpu(0)));  // takes the memory, which may wait, and gives it back
  device(gpu(0)).synchronize({});
  stall(current_stream(gpu(0)));
  const Tensor busy = x + 1.0f;
  const EventView compute = device(gpu(0)).record(current_stream(gpu(0)));
  const Tensor next = h.copyto(gpu(0));
  device(gpu(0)).synchronize(device(gpu(0)).stream(Lane::to_device));
  EXPECT_FALSE(device(gpu(0)).done(compute)) << "the upload waited for compute";
  device(gpu(0)).release(compute);
  EXPECT_EQ(next.to_vector<float>(), values);
}

#endif  // LOCUS_WITH_CUDA

}  // namespace
}  // namespace locus
