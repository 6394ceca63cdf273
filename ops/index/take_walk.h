// The walk that all ops with index tensors share: which element of the data belongs to which
// element of the result. For the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/ops/kernel/ids.h>
#include <locus/ops/kernel/walk.h>

namespace locus {

// x indexed by n_axes integer tensors of one shape, along axes[] (ascending). The index's axes
// begin at result axis `at`.
struct TakeAttrs {
  int8_t n_axes = 1;
  int8_t axes[kMaxRank] = {};
  int8_t at = 0;
  uint8_t mode = 0;  // IndexMode of ops/index.h
  // 1: one index tensor of data's rank. It holds an index for each element of the result, and
  // selects along axes[0] only, as in take_along_axis.
  uint8_t along = 0;
};
// Makes an index from a tensor of dtype d valid. Returns -1 if out of range in mode `raise`, for
// NaN in any mode, and past 64 bits in `wrap`.
LOCUS_HD int64_t resolve_index(int64_t i, DType d, int64_t n, int mode) {
  if (mode == 1) {
    if (i == kNaN && !is_exact(i, d)) return -1;
    return i < 0 ? 0 : i >= n ? n - 1 : i;
  }
  if (mode == 2) {
    if (!is_exact(i, d)) return -1;
    const int64_t r = i % n;
    return r < 0 ? r + n : r;
  }
  if (i < 0) i += n;
  return i >= 0 && i < n ? i : -1;
}

// Walks an indexed tensor (`data`) and its counterpart (`result`: take writes it, all others read
// it). A row is one place of the result's axes up to the index's last. Its elements are the
// remaining axes.
struct TakeWalk {
  int rank = 0;  // of rows
  int64_t rows = 1;
  int64_t shape[kMaxRank] = {};
  int64_t data_stride[kMaxRank] = {};  // 0 along the index's axes, except in an index `along`
  int64_t result_stride[kMaxRank] = {};
  int64_t ids_stride[kMaxRank][kMaxRank] = {};  // [axis of the row][index tensor]

  int first_id = 0;  // the first axis of the index; earlier axes repeat it

  int n_ids = 1;
  DType id_dtype = i64;
  const void* ids[kMaxRank] = {};
  int64_t length[kMaxRank] = {};  // of the indexed axes
  int axes[kMaxRank] = {};        // in data
  int64_t step[kMaxRank] = {};    // data's stride along them
  int mode = 0;

  Walk<2> inner;  // of a row's elements: data, result

  LOCUS_HD int64_t index_rows() const {
    int64_t n = 1;
    for (int i = first_id; i < rank; ++i) n *= shape[i];
    return n;
  }
  // Adds an axis to the rows, merged with the previous one if memory allows.
  LOCUS_HD void add_row_axis(int64_t n, int64_t data, int64_t result, const View* index, int axis) {
    rows *= n;
    if (n == 1) return;
    const int last = rank - 1;
    bool merges = last >= (axis < 0 ? 0 : first_id) && data_stride[last] == n * data &&
                  result_stride[last] == n * result;
    for (int k = 0; merges && axis >= 0 && k < n_ids; ++k)
      merges = ids_stride[last][k] == n * index[k].stride[axis];
    const int at = merges ? last : rank++;
    shape[at] = merges ? shape[at] * n : n;
    data_stride[at] = data;
    result_stride[at] = result;
    for (int k = 0; axis >= 0 && k < n_ids; ++k) ids_stride[at][k] = index[k].stride[axis];
  }
  // Rows have at least one axis.
  LOCUS_HD void finish() {
    if (rank == 0) shape[rank++] = 1;
    inner.tidy();
  }
};

LOCUS_HD TakeWalk make_take_walk(const View& data, const View& result, const View* ids,
                                 const TakeAttrs& a) {
  TakeWalk p;
  p.n_ids = a.n_axes;
  p.mode = a.mode;
  p.id_dtype = ids[0].meta.dtype;
  unsigned indexed = 0;
  for (int k = 0; k < a.n_axes; ++k) {
    p.ids[k] = ids[k].data;
    p.length[k] = data.meta.shape[a.axes[k]];
    p.axes[k] = a.axes[k];
    p.step[k] = data.stride[a.axes[k]];
    indexed |= 1u << a.axes[k];
  }
  if (a.along) {
    for (int i = 0; i < result.meta.rank; ++i)
      p.add_row_axis(result.meta.shape[i], i == a.axes[0] ? 0 : data.stride[i], result.stride[i],
                     ids, i);
    p.finish();
    return p;
  }
  const int ids_rank = ids[0].meta.rank;
  int r = 0, d = 0;  // axes of the result and of data
  const auto next = [&] {
    while (indexed >> d & 1) ++d;
    return d++;
  };
  for (; r < a.at; ++r)
    p.add_row_axis(result.meta.shape[r], data.stride[next()], result.stride[r], ids, -1);
  p.first_id = p.rank;
  for (int i = 0; i < ids_rank; ++i, ++r)
    p.add_row_axis(result.meta.shape[r], 0, result.stride[r], ids, i);
  for (; r < result.meta.rank; ++r) {
    const int axis = next();
    p.inner.add(result.meta.shape[r], {data.stride[axis], result.stride[r]});
  }
  p.finish();
  return p;
}

// A row's offsets. If an index is out of range, `bad` and `bad_axis` hold its value and axis.
struct TakeRow {
  int64_t data = 0, result = 0;
  int64_t bad = 0;
  int bad_axis = -1;  // among the indexed ones
};
LOCUS_HD TakeRow take_row(const TakeWalk& p, int64_t row) {
  TakeRow out;
  int64_t at[kMaxRank] = {};
  for (int i = p.rank - 1; i >= 0; --i) {
    const int64_t c = i > 0 ? row % p.shape[i] : row;
    if (i > 0) row /= p.shape[i];
    out.data += c * p.data_stride[i];
    out.result += c * p.result_stride[i];
    for (int k = 0; k < p.n_ids; ++k) at[k] += c * p.ids_stride[i][k];
  }
  for (int k = 0; k < p.n_ids; ++k) {
    const int64_t id = id_at(p.ids[k], p.id_dtype, at[k]);
    const int64_t valid = resolve_index(id, p.id_dtype, p.length[k], p.mode);
    if (valid < 0) {
      out.bad = id;
      out.bad_axis = k;
      return out;
    }
    out.data += valid * p.step[k];
  }
  return out;
}

namespace detail {
// Throws IndexError "take: index 7 is out of bounds for axis 0 with size 3; expected -3 to 2".
[[noreturn]] void throw_out_of_bounds(const char* op, int64_t index, DType d, int axis,
                                      int64_t size);
}  // namespace detail

}  // namespace locus
