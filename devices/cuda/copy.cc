// Copies between the host and a device, and within a device. peer.cc: between devices.
#include <cstring>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda/device.h>

namespace locus::cuda {

void CudaDevice::copy(void* dst, Context to, const void* src, Context from, size_t bytes,
                      StreamView view) {
  if (bytes == 0) return;
  CudaStream& s = own_stream(view);
  const cudaStream_t native = s.native();
  if (to.type == DeviceType::gpu && from.type == DeviceType::gpu) {
    if (!(to == from)) return copy_peer(dst, to, src, from, bytes, s);
    LOCUS_CUDA(copy_across(dst, src, bytes, native));
  } else if (from.type == DeviceType::cpu_pinned) {
    LOCUS_CUDA(copy_up(dst, src, bytes, native));
  } else if (to.type == DeviceType::cpu_pinned) {
    LOCUS_CUDA(copy_down(dst, src, bytes, native));
  } else if (from.type == DeviceType::cpu) {
    // The driver copies few bytes into its queue at once.
    if (bytes <= SmallBuffers::kBytes)
      LOCUS_CUDA(copy_up(dst, src, bytes, native));
    else
      up_.upload(dst, src, bytes, native);
  } else if (to.type == DeviceType::cpu) {
    download(dst, src, bytes, s);
    check_faults();
  } else {
    throw DeviceError("copy: ", from, " to ", to, " has no direct path; copy to cpu(0) first");
  }
}

void CudaDevice::download(void* dst, const void* src, size_t bytes, CudaStream& s) {
  if (bytes <= SmallBuffers::kBytes) {
    const SmallBuffers::Lease buffer(small_);
    LOCUS_CUDA(copy_down(buffer.memory(), src, bytes, s.native()));
    wait_for(s);
    std::memcpy(dst, buffer.memory(), bytes);
  } else {
    wait_for(s);  // before locking the ring
    down_.download(dst, src, bytes, s.native());
  }
}

}  // namespace locus::cuda
