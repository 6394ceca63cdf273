// Shared by devices/nccl/nccl.cc and devices/ranks/nccl_ranks.cc only.
#pragma once

#include <nccl.h>

#include <optional>

#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/kernel.h>

namespace locus::cuda {

inline void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw DeviceError("NCCL: ", call, ": ", ncclGetErrorString(result), ": ",
                    ncclGetLastError(nullptr));
}

inline std::optional<ncclDataType_t> type_of(DType d) {
  switch (d) {
    case f32:
      return ncclFloat32;
    case f64:
      return ncclFloat64;
    case f16:
      return ncclFloat16;
    case bf16:
      return ncclBfloat16;
    case i32:
      return ncclInt32;
    case i64:
      return ncclInt64;
    case u8:
      return ncclUint8;
    case i8:
      return ncclInt8;
    default:
      return std::nullopt;
  }
}

inline ncclRedOp_t native(ReduceOp op) {
  switch (op) {
    case ReduceOp::mean:
      return ncclAvg;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::prod:
      return ncclProd;
    default:
      return ncclSum;
  }
}

}  // namespace locus::cuda
