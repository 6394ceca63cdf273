#include <locus/ops/gather.h>

#include <locus/core/autograd.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(TakeAlongAxis, TakesOneElementForEachIndex) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{10, 30, 20}, {60, 40, 50}}, c);
    EXPECT_THAT(values(take_along_axis(x, array({{0, 2, 1}, {1, 2, 0}}, c))),
                ElementsAre(10, 20, 30, 40, 50, 60));
    EXPECT_THAT(values(take_along_axis(x, array({{1, 0, -1}}, {c, i32}), {.axis = 0})),
                ElementsAre(60, 30, 50));
    EXPECT_THAT(values(take_along_axis(x, array({5, -6}, c), {.axis = {}})), ElementsAre(50, 10));
    // Columns broadcast, on either side.
    EXPECT_THAT(values(take_along_axis(x, array({{2}, {0}}, c))), ElementsAre(20, 60));
    EXPECT_THAT(values(take_along_axis(x, array({{1}, {0}, {1}}, c), {.axis = 0})),
                ElementsAre(60, 40, 50, 10, 30, 20, 60, 40, 50));
    EXPECT_THAT(values(take_along_axis(x.T()(Slice(0, 1)), array({{1, 1}, {0, 1}}, c))),
                ElementsAre(60, 60, 10, 60));
    EXPECT_EQ(take_along_axis(x, zeros({2, 0}, {c, i64})).shape(), (Shape{2, 0}));
    const Tensor reversed = flip(x, 1);
    EXPECT_THAT(values(take_along_axis(reversed.T(), array({{0, 2}}, {c, u8}), {.axis = 0})),
                ElementsAre(20, 60));
  }
}

TEST(TakeAlongAxis, GradientAddsRepeatedIndices) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor ids = array({{0, 0, -1, 0}, {1, 1, 1, 1}}, c);
    check_gradients(
        [&](const Tensors& x) -> Tensors {
          const Tensor y = take_along_axis(x[0], ids);
          return {y * y * y};
        },
        {sample_values(c, f64, {2, 3})});
  }
}

TEST(PutAlongAxis, WritesInPlace) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{10, 30, 20}, {60, 40, 50}}, c);
    const Tensor same = put_along_axis(x, array({{1}, {0}}, c), 99);
    EXPECT_TRUE(same.shares_memory_with(x));
    EXPECT_THAT(values(x), ElementsAre(10, 99, 20, 99, 40, 50));
    put_along_axis(x, array({{0, 1, -1}}, c), array({1.5f, 2.f, 3.f}, c), {.axis = 0});
    EXPECT_THAT(values(x), ElementsAre(1, 99, 20, 99, 2, 3));
    put_along_axis(x, array({5, 5, 0}, c), array({7, 8, 9}, c), {.axis = {}});  // the last 5 stays
    EXPECT_THAT(values(x), ElementsAre(9, 99, 20, 99, 2, 8));
    const Tensor base = zeros({3, 4}, c);
    const Tensor columns = base(Slice(), Slice({}, {}, 2)).T();  // (2, 3), with gaps
    put_along_axis(columns, array({{2}, {0}}, c), 1);
    put_along_axis(columns, array({1}, c), 5, {.axis = {}});
    EXPECT_THAT(values(base), ElementsAre(0, 0, 1, 0, 5, 0, 0, 0, 1, 0, 0, 0));
    const Tensor y = put_along_axis(x, array({{0}, {0}}, c), 0, {.inplace = false});
    EXPECT_THAT(values(y), ElementsAre(0, 99, 20, 0, 2, 8));
    EXPECT_THAT(values(x), ElementsAre(9, 99, 20, 99, 2, 8));
  }
}

TEST(PutAlongAxis, ReadsValuesThatItOverwrites) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(4, c);
    put_along_axis(x, array({3, 2, 1, 0}, c), x);
    EXPECT_THAT(values(x), ElementsAre(3, 2, 1, 0));
    const Tensor ids = array({2, 0, 1}, c);
    put_along_axis(ids, ids, ids);
    EXPECT_THAT(values(ids), ElementsAre(0, 1, 2));
  }
}

TEST(GatherNd, TakesCoordinatesAlongTheFirstAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(12, c).reshape({2, 3, 2});
    const Tensor ids = array({{1, 0, -1}, {0, 2, 2}}, c);
    EXPECT_THAT(values(gather_nd(x, ids)), ElementsAre(6, 7, 4, 5, 10, 11));
    EXPECT_EQ(gather_nd(x, array({{1}, {2}, {0}}, c)).shape(), (Shape{1}));
    EXPECT_THAT(values(gather_nd(x, array({1, 2, 0}, c))), ElementsAre(10));
    EXPECT_THAT(values(scatter_nd(array({1, 2, 3}, c), ids, {2, 3})),
                ElementsAre(0, 0, 2, 1, 0, 3));
    const Tensor twice = array({{0, 0, 0}, {1, 1, 0}}, c);
    const Tensor v = array({1, 2, 3}, c);
    EXPECT_THAT(values(scatter_nd(v, twice, {1, 2})), ElementsAre(3, 2));
    EXPECT_THAT(values(scatter_nd(v, twice, {1, 2}, {.accumulate = true})), ElementsAre(3, 3));
  }
}

TEST(IndexAdd, AddsRepeatedEntries) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3, 2}, c), source = array({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}, c);
    EXPECT_THAT(values(index_add(x, 0, array({2, 0, 2}, c), source)),
                ElementsAre(4, 5, 1, 1, 7, 9));
    EXPECT_THAT(values(index_add(x, 0, array({2, 0, 2}, c), source, {.alpha = -1})),
                ElementsAre(-2, -3, 1, 1, -5, -7));
    index_add(x, -1, array({0}, c), ones({3, 1}, c), {.out = x});
    EXPECT_THAT(values(x), ElementsAre(2, 1, 2, 1, 2, 1));
    const Tensor bytes = full({1}, 250, {c, u8});
    EXPECT_THAT(values(index_add(bytes, 0, array({0, 0}, c), full({2}, 5, {c, u8}))),
                ElementsAre(4));
    const Tensor bits = zeros({2}, {c, bool_});
    EXPECT_THAT(values(index_add(bits, 0, array({1, 1}, c), ones({2}, {c, bool_}))),
                ElementsAre(0, 1));
  }
}

// In f16, 2048 + 1 + 1 + ... stays 2048 if each sum is rounded.
TEST(IndexAdd, RoundsOnce) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (int64_t size : {2, 100000}) {
      const Tensor x = full({size}, 2048, {c, f16});
      const Tensor y = index_add(x, 0, zeros({100}, {c, i64}), ones({100}, {c, f16}));
      EXPECT_EQ(values(y)[0], 2148);
      EXPECT_EQ(values(y)[1], 2048);
    }
  }
}

// The ways of the kernels: sums for all elements, sorted elements, and rows.
TEST(IndexAdd, HasTheSameBitsOnEveryContext) {
  for (DType d : {f32, f16, f64}) {
    for (const Shape& s : {Shape{700, 1}, Shape{5, 3}, Shape{900000, 1}}) {
      std::vector<float> bits[2];
      std::vector<int64_t> ids(50000);
      for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<int64_t>(i * i % 1009) % s[0] - (i % 3 == 0 ? s[0] : 0);
      for (Context c : contexts()) {
        const Tensor x = sample_values(c, d, s), v = sample_values(c, d, {50000, s[1]}, -2, 2, 1);
        const Tensor y = index_add(x, 0, array(ids, c), v);
        const std::vector<float> now = cast(y, f32).to_vector<float>();
        if (bits[0].empty()) bits[0] = now;
        bits[1] = now;
        EXPECT_EQ(bits[0], bits[1]) << c << name(d) << s;
      }
    }
  }
}

TEST(IndexPut, ReplacesOrAdds) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({2, 3}, c), i = array({0, 1, 0}, c), j = array({2, -1, 2}, {c, i32});
    const Tensor v = array({1.f, 2.f, 4.f}, c);
    EXPECT_THAT(values(index_put(x, {i, j}, v)), ElementsAre(0, 0, 4, 0, 0, 2));
    EXPECT_THAT(values(index_put(x, {i, j}, v, {.accumulate = true})),
                ElementsAre(0, 0, 5, 0, 0, 2));
    EXPECT_THAT(values(index_put(x, {Tensor(), array({1}, c)}, 7)), ElementsAre(0, 7, 0, 0, 7, 0));
    EXPECT_THAT(values(index_put(x, {array({{0}, {1}}, c), array({0, 2}, c)}, 3)),
                ElementsAre(3, 0, 3, 3, 0, 3));
    const Tensor mask = array({{false, true, true}, {false, false, true}}, c);
    EXPECT_THAT(values(index_put(x, {mask}, v)), ElementsAre(0, 1, 2, 0, 0, 4));
    index_put(x, {i}, 1, {.out = x});
    EXPECT_THAT(values(x), ElementsAre(1, 1, 1, 1, 1, 1));
  }
}

TEST(IndexAdd, ReadsOperandsThatAreNotRowMajor) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c).reshape({2, 3}).T(), ids = array({2, 0, 2, 1}, c);
    const Tensor three = broadcast_to(full({}, 3, c), {4});
    EXPECT_THAT(values(index_add(zeros({3}, c), 0, ids, three)), ElementsAre(3, 3, 6));
    EXPECT_THAT(values(index_add(x, 0, ids(Slice({}, {}, 2)), x(Slice(0, 2)))),
                ElementsAre(0, 3, 1, 4, 3, 12));
    const Tensor every = arange(8, c)(Slice({}, {}, 2));  // 0 2 4 6
    EXPECT_THAT(values(index_put(zeros({3}, c), {ids}, every)), ElementsAre(2, 6, 4));
    EXPECT_THAT(values(index_put(zeros({3}, c), {ids}, every, {.accumulate = true})),
                ElementsAre(2, 6, 4));
  }
}

TEST(IndexAdd, RefusesMoreIndicesThanSortsCount) {
  const Shape many{int64_t{1} << 32};
  const Tensor x = zeros({2}), ids = broadcast_to(zeros({}, i64), many);
  const Tensor source = broadcast_to(zeros({}), many);
  const char* const text = "expected fewer than 2^32 indices, got 4294967296";
  EXPECT_THAT(message_of<ValueError>([&] { index_add(x, 0, ids, source, {.out = x}); }),
              HasSubstr(text));
  EXPECT_THAT(message_of<ValueError>([&] { index_put(x, {ids}, source, {.out = x}); }),
              HasSubstr(text));
}

TEST(ScatterNd, AddsWhileItIsRecorded) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor ids = array({{0, 2, 0}}, c);
    for (bool accumulate : {false, true})
      check_gradients(
          [&](const Tensors& t) -> Tensors {
            const Tensor y = scatter_nd(t[0], ids, {3, 2}, {.accumulate = accumulate});
            return {y * y};
          },
          {sample_values(c, f64, {3, 2})});
  }
}

TEST(IndexPut, ReplacedValuesHaveGradientZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor i = array({1, 1, 0}, c), j = array({2, 2, 0}, c);
    for (bool accumulate : {false, true})
      check_gradients(
          [&](const Tensors& x) -> Tensors {
            const Tensor y = index_put(x[0], {i, j}, x[1], {.accumulate = accumulate});
            return {y * y * y};
          },
          {sample_values(c, f64, {2, 3}), sample_values(c, f64, {3}, -2, 2, 1)});
    const Tensor v = ones({3}, c);
    v.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = index_put(zeros({2, 3}, c), {i, j}, v);
    }
    y.backward();
    EXPECT_THAT(values(v.grad()), ElementsAre(0, 1, 1));
  }
}

TEST(Gather, RefusesIndicesOutsideTheirAxis) {
  const Tensor x = zeros({2, 3}), out = zeros({2, 3});
  EXPECT_THAT(message_of<IndexError>([&] {
                take_along_axis(x, array({{0, 3}}));
              }),
              HasSubstr("take_along_axis: indices: take: index 3 is out of bounds for axis 1 with "
                        "size 3; expected "
                        "-3 to 2"));
  EXPECT_THAT(
      message_of<IndexError>([&] {
        put_along_axis(out, array({{0, -4}}), 1);
      }),
      HasSubstr(
          "put_along_axis: indices: index_put: index -4 is out of bounds for axis 1 with size 3"));
  EXPECT_THAT(
      message_of<IndexError>([&] {
        gather_nd(x, array({{0}, {9}}));
      }),
      HasSubstr("gather_nd: indices: take: index 9 is out of bounds for axis 1 with size 3"));
  EXPECT_THAT(
      message_of<IndexError>([&] {
        scatter_nd(ones({2}), array({{1, 2}}), {2});
      }),
      HasSubstr("scatter_nd: indices: index_put: index 2 is out of bounds for axis 0 with size 2"));
  EXPECT_THAT(message_of<IndexError>([&] {
                index_add(out, 0, array({0, 2}), ones({2, 3}), {.out = out});
              }),
              HasSubstr("index_add: index 2 is out of bounds for axis 0 with size 2"));
  for (bool accumulate : {false, true})
    EXPECT_THAT(
        message_of<IndexError>([&] {
          index_put(out, {array({0, 1}), array({0, 5})}, 1, {.accumulate = accumulate, .out = out});
        }),
        HasSubstr(text_of("index_put: ", accumulate ? "indices: index_add: " : "",
                          "index 5 is out of bounds for axis 1 with size 3")));
  EXPECT_THAT(values(out), testing::Each(0));
  for (Context c : contexts())
    EXPECT_THAT(message_of<IndexError>([&] {
                  index_add(zeros({2}, c), 0, array({2}, c), ones({1}, c));
                  wait_all();
                }),
                HasSubstr("index_add: index 2 is out of bounds for axis 0 with size 2"));
}

TEST(Gather, ClipsAndWraps) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(3, c), ids = array({-4, 5, 1}, c);
    EXPECT_THAT(values(take_along_axis(x, ids, {.mode = IndexMode::clip})), ElementsAre(0, 2, 1));
    EXPECT_THAT(values(take_along_axis(x, ids, {.mode = IndexMode::wrap})), ElementsAre(2, 2, 1));
    EXPECT_THAT(values(index_add(x, 0, ids, x, {.mode = IndexMode::wrap})), ElementsAre(0, 3, 3));
  }
}

TEST(Gather, RefusesIndicesThatAreNoIntegers) {
  const Tensor x = zeros({2, 3}), floats = zeros({2, 3}), mask = zeros({2, 3}, bool_);
  EXPECT_THAT(message_of<DTypeError>([&] { take_along_axis(x, floats); }),
              HasSubstr("take_along_axis: indices cpu(0) (2,3) f32: expected integers, got f32"));
  EXPECT_THAT(message_of<DTypeError>([&] { gather_nd(x, mask); }),
              HasSubstr("gather_nd: indices cpu(0) (2,3) bool: expected integers, got a mask"));
  EXPECT_THROW(put_along_axis(x, floats, 1), DTypeError);
  EXPECT_THROW(scatter_nd(x, floats, {2, 3}), DTypeError);
  EXPECT_THROW(index_add(x, 0, zeros({2}), x), DTypeError);
  EXPECT_THROW(index_put(x, {zeros({1})}, 1), DTypeError);
}

TEST(Gather, NamesShapesThatDoNotFit) {
  const Tensor x = zeros({2, 3}), ids = zeros({2}, i64);
  EXPECT_THAT(message_of<ShapeError>([&] { take_along_axis(x, ids); }),
              HasSubstr("expected indices of 2 axes"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                take_along_axis(x, zeros({4, 1}, i64));
              }),
              HasSubstr("lengths 2 and 4 at axis 0"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                put_along_axis(x, zeros({2, 1}, i64), zeros({5}));
              }),
              HasSubstr("put_along_axis: values cpu(0) (5,) f32"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                gather_nd(x, zeros({3, 2}, i64));
              }),
              HasSubstr("with 1 to 2 coordinates"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                scatter_nd(x, zeros({1, 2}, i64), {4});
              }),
              HasSubstr("expected values of shape (2,)"));
  EXPECT_THAT(message_of<ShapeError>([&] { index_add(x, 1, ids, x); }),
              HasSubstr("expected a source of shape (2,2)"));
  EXPECT_THROW(index_add(x, 0, ids, zeros({2, 3}, f64)), DTypeError);
  EXPECT_THAT(message_of<IndexError>([&] {
                index_put(x, {ids, ids, ids}, 1);
              }),
              HasSubstr("index_put: more indices than axes"));
  EXPECT_THROW(index_put(x, {zeros({3}, bool_)}, 1), IndexError);
  EXPECT_THROW(index_put(x, {ids}, zeros({7})), ShapeError);
  EXPECT_THROW(index_put(x, {}, 1), IndexError);
}

TEST(Gather, NamesIndicesThatDoNotBroadcast) {
  for (Context c : contexts()) {
    const Tensor two = zeros({2}, {c, i64}), three = zeros({3}, {c, i64});
    const std::string both = text_of(describe(two), ", ", describe(three), ": ");
    EXPECT_THAT(message_of<ShapeError>([&] {
                  index_put(zeros({3, 3}, c), {two, three}, 1);
                }),
                StartsWith("index_put: indices " + both));
    EXPECT_THAT(message_of<ShapeError>([&] {
                  ravel_multi_index({two, three}, {3, 3});
                }),
                StartsWith("ravel_multi_index: ids " + both));
  }
}

TEST(Gather, TakesAnAxisAlone) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{1, 2}, {3, 4}}, c), ids = array({{1}, {0}}, c);
    EXPECT_THAT(values(take_along_axis(x, ids, 1)), ElementsAre(2, 3));
    EXPECT_THAT(values(put_along_axis(x, ids, 9, 1)), ElementsAre(1, 9, 9, 4));
    EXPECT_THAT(values(compress(array({0, 1}, c), x, 1)), ElementsAre(9, 4));
  }
}

TEST(Gather, RefusesMixedContexts) {
  const std::vector<Context> all = distinct_contexts();
  const Tensor x = ones({2, 2}, all[0]), other = ones({2}, all[1]);
  const std::string begin =
      text_of(": operands live on different contexts: data ", describe(x), ", ");
  EXPECT_THAT(message_of<ContextMismatch>([&] { compress(other, x); }),
              StartsWith("compress" + begin + "condition "));
  EXPECT_THAT(message_of<ContextMismatch>([&] { sequence_mask(x, other); }),
              StartsWith("sequence_mask" + begin + "sequence_length "));
}

}  // namespace
}  // namespace locus::test
