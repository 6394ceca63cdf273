// Shared by the host files of index and gather.
#pragma once

#include <span>

#include <locus/core/op.h>
#include <locus/ops/index/take_walk.h>

namespace locus::detail {

inline constexpr char kIdDTypes[] = "expected ids of one dtype: i64, i32, u8, i8, f64 or f32";
// Throws unless ids may index data.
void check_ids(std::span<const Meta> ids, const Meta& data, const TakeAttrs& a);
// Throws ShapeError "expected <what> of shape <wanted>".
void expect_shape(const Meta& m, const char* what, const Shape& wanted);
// ids, or f32 for 16-bit ids; DTypeError for a mask.
Tensor integer_ids(const char* op, const Tensor& ids);
// Dtype and shape of data taken by ids.
Meta taken(const Meta& data, const Meta& ids, const TakeAttrs& a);
// Of ops that write values at the places of data that ids name: inputs data, values, ids.
DType put_infer(std::span<const Meta> in, const TakeAttrs& a, std::span<Meta> out);

// Zeros that share the memory of one number.
Tensor broadcast_zeros(const Shape& shape, Context c, DType d);
// index_add() of values to zeros: take's gradient. Writes into `place` if that is defined.
Tensor add_to_zeros(const Shape& shape, const Tensor& values, std::span<const Ref> ids,
                    const TakeAttrs& a, Tensor place = {});

}  // namespace locus::detail
