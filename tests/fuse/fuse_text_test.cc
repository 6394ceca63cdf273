// The text of fused kernels for GPUs compiles.
#ifdef LOCUS_WITH_CUDA
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <locus/core/dtype.h>
#include <locus/ops/fuse/kernel.h>

#include "tests/support/gpu_text.h"

namespace locus::fusion {
namespace {

std::string compile(const std::string& text) {
  return test::compile_gpu_text(text, "sm_90", gpu_headers(), "--fmad=false");
}

// All formulas that take elements of d.
KernelBody all_formulas(DType d) {
  using Kind = KernelBody::Operand::Kind;
  const KernelBody::Operand x{Kind::array, 0}, number{Kind::number, 0};
  KernelBody body{.arrays = {d}, .numbers = {d}};
  const auto add = [&](KernelBody::Line line) {
    body.lines.push_back(std::move(line));
    return KernelBody::Operand{Kind::line, static_cast<int>(body.lines.size()) - 1};
  };
  const auto mask = add({.dtype = bool_, .from = {x}});
  for (const Op* op : all_ops()) {
    const formula::Info* const info = formula::info_of(*op);
    if (!info || !op->kernel(DeviceType::cpu, d)) continue;
    KernelBody::Line line{.formula = info, .dtype = info->predicate ? bool_ : d};
    for (int i = 0; i < info->arity; ++i) line.from.push_back(i == 1 ? number : x);
    if (op->name == "where") line.from[0] = mask;
    if (info->bytes > 0) {
      line.attributes = static_cast<int>(body.attributes.size());
      body.attributes.push_back(info);
    }
    const auto value = add(std::move(line));
    if (body.outputs.size() < 20) body.outputs.emplace_back(value, body.lines.back().dtype);
  }
  for (const DType to : {f32, f16, bf16})
    body.outputs.emplace_back(add({.dtype = to, .from = {x}}), to);
  return body;
}

TEST(FuseText, CompilesEveryFormulaForEveryDType) {
  for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
    const KernelBody body = all_formulas(d);
    EXPECT_GT(body.lines.size(), is_floating(d) ? 80u : 15u) << name(d);
    const std::string code = compile(text_of_kernel("all_of_them", body, true));
    EXPECT_THAT(code, testing::AllOf(testing::HasSubstr("all_of_them_flat"),
                                     testing::HasSubstr("all_of_them_strided")));
  }
}

TEST(FuseText, OfAFewFormulasIsLittleCode) {
  using Kind = KernelBody::Operand::Kind;
  const auto info = [](const char* op) { return formula::info_of(get_op(op)); };
  const KernelBody body{.arrays = {f32, f32},
                        .lines = {{info("multiply"), f32, {{Kind::array, 0}, {Kind::array, 1}}},
                                  {info("add"), f32, {{Kind::line, 0}, {Kind::array, 1}}}},
                        .outputs = {{{Kind::line, 1}, f32}}};
  const std::string code = compile(text_of_kernel("little", body, true));
  EXPECT_LT(code.size(), 24u << 10);
}

TEST(FuseText, CompilesEveryReductionForEveryDType) {
  using Kind = KernelBody::Operand::Kind;
  const KernelBody::Operand x{Kind::array, 0};
  for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
    KernelBody body{.arrays = {d, d}, .of_row = {false, true}};
    const auto add = [&](const char* text, DType result, KernelBody::Operand from) {
      body.reductions.push_back({text, result, from});
      return KernelBody::Operand{Kind::reduction, static_cast<int>(body.reductions.size()) - 1};
    };
    const DType whole = is_floating(d) ? d : i64;
    for (const char* text : {"Sum()", "Prod()"})
      body.outputs.push_back({add(text, whole, x), whole, true});
    for (const char* text : {"Max()", "Min()"}) body.outputs.push_back({add(text, d, x), d, true});
    if (is_floating(d))
      for (const char* text : {"Sum{{}, true}", "LogSumExp()", "Norm::Euclidean()"})
        body.outputs.push_back({add(text, d, x), d, true});
    // Whether an element differs from the smallest; the elements as f16.
    body.lines.push_back({.formula = formula::info_of(get_op("not_equal")),
                          .dtype = bool_,
                          .from = {x, {Kind::reduction, 3}}});
    body.outputs.push_back({add("Max()", bool_, {Kind::line, 0}), bool_, true});
    body.lines.push_back({.dtype = f16, .from = {x}});
    body.outputs.push_back({{Kind::line, 1}, f16});
    const std::string code = compile(text_of_row_kernel("of_rows", body, true));
    EXPECT_THAT(
        code, testing::AllOf(testing::HasSubstr("of_rows_rows"), testing::HasSubstr("of_rows_any")))
        << name(d);
  }
}

TEST(FuseText, CompilesResultsOfRowsWithoutReductions) {
  using Kind = KernelBody::Operand::Kind;
  const KernelBody body{
      .arrays = {f32, f16},
      .lines = {{formula::info_of(get_op("add")), f32, {{Kind::array, 0}, {Kind::array, 0}}}},
      .outputs = {{{Kind::line, 0}, f32, true}, {{Kind::array, 1}, f16}},
      .of_row = {true, false}};
  EXPECT_THAT(compile(text_of_row_kernel("of_rows", body, true)),
              testing::HasSubstr("of_rows_any"));
}

}  // namespace
}  // namespace locus::fusion
#endif
