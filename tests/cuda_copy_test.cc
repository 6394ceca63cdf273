// Copies between the host, pinned memory and real GPUs.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include <locus/core/storage.h>

#include "tests/cuda_support.h"

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

// Below, at and above the sizes where the path changes (slots of 512 KiB, 2 MiB staged).
const size_t kSizes[] = {1, 1000, 131072, 131073, 524288, 524289, 3000000};

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
    d.copy(b.impl().view.data, gpu(1), a.impl().view.data, gpu(0), bytes, s);
    d.synchronize(s);
    EXPECT_EQ(b.to_vector<float>(), values) << "stream of gpu(" << owner << ")";
  }
}

#else

TEST(CudaCopy, NeedsACudaBuild) { GTEST_SKIP() << "needs a CUDA build (LOCUS_CUDA=ON) and a GPU"; }

#endif  // LOCUS_WITH_CUDA

}  // namespace
}  // namespace locus
