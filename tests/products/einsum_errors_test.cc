// Errors of einsum name the position in the subscripts and the operand.
#include <gtest/gtest.h>

#include <string>

#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/einsum.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf, testing::HasSubstr, testing::StartsWith;

// The error of einsum for operands of these shapes.
template <class E>
std::string refused(Context c, const char* subscripts, const std::vector<Shape>& shapes) {
  Tensors x;
  for (const Shape& s : shapes) x.push_back(ones(s, {c}));
  return message_of<E>([&] { einsum(subscripts, x); });
}

TEST(EinsumErrors, NameThePositionOfACharacter) {
  struct Case {
    const char* subscripts;
    std::string begin;
  };
  for (Context c : contexts())
    for (const Case& one : std::vector<Case>{
             {"i$,j->i", "position 1: '$' is no letter"},
             {"i1->i", "position 1: '1' is no letter"},
             {"i..->i", "position 1: 2 dots; expected the three dots"},
             {"i.->i", "position 1: 1 dot; expected the three dots"},
             {"i....->i", "position 1: 4 dots"},
             {"...i...->i", "position 4: a second ellipsis"},
             {"i-j", "position 1: '-' alone"},
             {"i>j", "position 1: '>' alone"},
             {"i->i->i", "position 4: a second '->'"},
             {"i->i,i", "position 4: ',' behind '->'"},
             {"ij,jk->ik", "position 3: term 1 has no operand; got 1 operand for 2 terms"}})
      EXPECT_THAT(refused<ValueError>(c, one.subscripts, {{2, 2}}),
                  StartsWith(text_of("einsum: subscripts \"", one.subscripts, "\", ", one.begin)));
}

TEST(EinsumErrors, ShowBytesThatAreNoPrintableCharacters) {
  EXPECT_THAT(message_of<ValueError>([] {
                einsum(std::string_view("ij\0->i", 6), {ones({2, 2})});
              }),
              StartsWith(R"(einsum: subscripts "ij\x00->i", position 2: '\x00' is no letter)"));
  EXPECT_THAT(refused<ValueError>(cpu(0), "\xc3\xa9", {{2}}), HasSubstr(R"('\xc3' is no letter)"));
}

TEST(EinsumErrors, BeginWithTheCalledFunction) {
  const Tensor large = broadcast_to(ones({1}), {int64_t{1} << 33});
  EXPECT_THAT(message_of<ShapeError>([&] {
                einsum("i,j->ij", {large, large});
              }),
              StartsWith("einsum: "));
}

TEST(EinsumErrors, NameALetterOfTheResult) {
  for (Context c : contexts()) {
    EXPECT_THAT(refused<ValueError>(c, "ij->iji", {{2, 2}}),
                HasSubstr("position 6: 'i' is twice in the result"));
    EXPECT_THAT(refused<ValueError>(c, "ij->ik", {{2, 2}}),
                HasSubstr("position 5: 'k' of the result is in no operand's term"));
    EXPECT_THAT(refused<ShapeError>(c, "...j->j", {{2, 2}}),
                HasSubstr("position 6: the result lacks the 1 axis of the operands' ellipses"));
    EXPECT_THAT(refused<ShapeError>(c, "abcde,fghij", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}),
                HasSubstr("the result has 10 axes; expected at most 8"));
  }
}

TEST(EinsumErrors, NameAnOperandThatDoesNotFitItsTerm) {
  for (Context c : contexts()) {
    const std::string x = describe(ones({2, 3}, {c}));
    EXPECT_THAT(refused<ShapeError>(c, "ij,i->", {{2, 3}, {2, 3}}),
                AllOf(HasSubstr("position 3: operand 1 " + x + " has 2 axes, and its term has 1"),
                      HasSubstr("or an ellipsis")));
    EXPECT_THAT(refused<ShapeError>(c, "ijk->", {{2, 3}}), HasSubstr("operand 0 " + x));
    EXPECT_THAT(refused<ShapeError>(c, "i...jk->", {{2, 3}}),
                HasSubstr("expected at most as many letters as axes"));
    EXPECT_THAT(refused<ValueError>(c, "ij->", {{2, 3}, {2, 3}}),
                HasSubstr("position 2: operand 1 " + x + " has no term; got 2 operands"));
    EXPECT_THAT(message_of<ValueError>([] { einsum("ij->", {}); }),
                HasSubstr("term 0 has no operand"));
  }
}

TEST(EinsumErrors, NameBothOperandsWhoseLengthsDiffer) {
  for (Context c : contexts()) {
    const std::string a = describe(ones({2, 3}, {c})), b = describe(ones({4, 5}, {c}));
    EXPECT_THAT(refused<ShapeError>(c, "ij,jk->ik", {{2, 3}, {4, 5}}),
                AllOf(HasSubstr("position 3: 'j' has length 4 in operand 1 " + b),
                      HasSubstr("and 3 in operand 0 " + a + ", position 1")));
    EXPECT_THAT(refused<ShapeError>(c, "i...,j...->ij...", {{2, 3}, {4, 5}}),
                HasSubstr("position 6: axis -1 of the ellipsis has length 5"));
    EXPECT_THAT(refused<ShapeError>(c, "ii->i", {{2, 3}}),
                HasSubstr("position 1: 'i' has lengths 2 and 3 in operand 0 " + a));
    EXPECT_THAT(refused<ShapeError>(c, "i,ii->i", {{3}, {1, 3}}),
                HasSubstr("position 3: 'i' has lengths 1 and 3 in operand 1"));
  }
}

TEST(EinsumErrors, NameOperandsOfDifferentContexts) {
  const std::vector<Context> all = distinct_contexts();
  const Tensor a = ones({2}, {all[0]}), b = ones({2}, {all[1]});
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                einsum("i,i,i", {a, a, b});
              }),
              AllOf(StartsWith("einsum: operands live on different contexts: operands[0] "),
                    HasSubstr("move one first: operands[2].as_in_context(")));
  EXPECT_THAT(message_of<EmptyTensor>([&] {
                einsum("i,i", {a, Tensor()});
              }),
              StartsWith("einsum: operand 1 is an empty Tensor"));
}

TEST(EinsumErrors, RefuseMoreThanEightAxesBetweenOperands) {
  for (Context c : contexts()) {
    const Shape s{2, 2, 2, 2, 2, 2, 2, 2};
    EXPECT_THAT(refused<ShapeError>(c, "abcdefuv,abcghiwx,defghiyz->uvwxyz", {s, s, s}),
                HasSubstr("the product of any two operands has more than 8 axes"));
  }
}

}  // namespace
}  // namespace locus::test
