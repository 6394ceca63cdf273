// The types that kernels see: plain data only. nvcc, g++ at any instruction set and user plug-ins
// compile this header, so it uses no standard containers. Device code needs no other header.
//
// Ownership: these types own nothing. Units: sizes and strides count elements, not bytes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <locus/core/hd.h>

namespace locus {

inline constexpr int kMaxRank = 8;
inline constexpr int kNumDTypes = 9;
inline constexpr int kMaxDeviceTypes = 16;
inline constexpr int kMaxDevices = 64;  // of one type

// f16 and bf16 are storage types: kernels compute on them in f32. bool_ holds one byte, 0 or 1.
enum class DType : uint8_t { f32, f64, f16, bf16, i32, i64, u8, i8, bool_ };
using enum DType;

// MXNet's and DLPack's codes. register_device() in device.h hands out more.
enum class DeviceType : uint8_t { cpu = 1, gpu = 2, cpu_pinned = 3 };

// A device type and an index. A value type; constructing a Context touches no device.
struct Context {
  DeviceType type = DeviceType::cpu;
  int32_t index = 0;

  // Accepts "gpu(1)", "gpu:1", "gpu", and the same for every registered device type's name.
  // Otherwise throws Error that lists the accepted forms. Defined in context.cc.
  static Context parse(std::string_view text);

  // By type, then by index.
  friend auto operator<=>(const Context&, const Context&) = default;
};

// A queue of work on one context. id 0 is the host: work is complete when the call returns. native
// is the device's handle (a cudaStream_t on cuda). The owning type is Stream (stream.h).
struct StreamView {
  Context context;
  uint32_t id = 0;
  void* native = nullptr;
};

struct Meta {
  DType dtype = DType::f32;
  int8_t rank = 0;
  int64_t shape[kMaxRank] = {};

  LOCUS_HD int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
};

// Strided memory: element (i0, i1, ...) lies at data + sum(i_k * stride[k]) elements.
struct View {
  void* data = nullptr;
  Meta meta;
  int64_t stride[kMaxRank] = {};

  template <class T>
  LOCUS_HD T* as() const {
    return static_cast<T*>(data);
  }
  // Row-major without gaps. Axes of length 1 do not matter.
  LOCUS_HD bool contiguous() const {
    int64_t expected = 1;
    for (int i = meta.rank - 1; i >= 0; --i) {
      if (meta.shape[i] != 1 && stride[i] != expected) return false;
      expected *= meta.shape[i];
    }
    return true;
  }
};

struct AttrsOwner;  // op.h

// One launch. `in`, `out`, `attrs` and `owner` are valid until the kernel function returns.
struct Call {
  const View* in;
  const View* out;
  int n_in;
  int n_out;
  const void* attrs;
  int attrs_size;
  StreamView stream;
  const AttrsOwner* owner = nullptr;  // of the memory that attrs point to; null: none

  template <class A>
  LOCUS_HD const A& attributes() const {
    return *static_cast<const A*>(attrs);
  }
};

// An attribute whose value changes from step to step. An eager call has the value itself. A
// replayed kernel (capture.h) reads the value from its device's memory.
template <class T>
struct Live {
  T value{};
  const T* at = nullptr;

  LOCUS_HD const T& now() const { return at ? *at : value; }
};

// Enqueues work on call.stream and returns without synchronising. On a host context, computes.
using Kernel = void (*)(const Call& call);

}  // namespace locus
