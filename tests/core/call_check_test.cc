// Errors name the called function and its operand.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/optim.h>
#include <locus/ops/pooling.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

TEST(CallCheck, NamesTheFunctionThatGotAnEmptyTensor) {
  const Tensor e, x = ones({2, 3}), ids = array({0, 1});
  const Calls calls = {{"take", [&] { take(e, ids); }},
                       {"take", [&] { take(x, e); }},
                       {"pick", [&] { pick(e, ids); }},
                       {"one_hot", [&] { one_hot(e, 2); }},
                       {"nonzero", [&] { nonzero(e); }},
                       {"concat",
                        [&] {
                          concat({x, e});
                        }},
                       {"stack",
                        [&] {
                          stack({e, x});
                        }},
                       {"split", [&] { split(e, 1); }},
                       {"tile", [&] { tile(e, {2}); }},
                       {"repeat", [&] { repeat(e, 2, 0); }},
                       {"cast", [&] { cast(e, f64); }},
                       {"copy", [&] { copy(e); }},
                       {"contiguous", [&] { contiguous(e); }},
                       {"reshape", [&] { reshape(e, {1}); }},
                       {"flatten", [&] { flatten(e); }},
                       {"transpose", [&] { transpose(e); }},
                       {"swapaxes", [&] { swapaxes(e, 0, 1); }},
                       {"expand_dims", [&] { expand_dims(e, 0); }},
                       {"squeeze", [&] { squeeze(e); }},
                       {"squeeze", [&] { squeeze(e, 0); }},
                       {"broadcast_to", [&] { broadcast_to(e, {1}); }},
                       {"flip", [&] { flip(e, 0); }},
                       {"slice_axis", [&] { slice_axis(e, 0, Slice()); }},
                       {"dot", [&] { dot(e, x); }},
                       {"matmul", [&] { matmul(x, e); }},
                       {"dense", [&] { dense(e, x); }},
                       {"dense", [&] { dense(x, e); }},
                       {"convolution", [&] { convolution(e, x); }},
                       {"deconvolution", [&] { deconvolution(x, e); }},
                       {"max_pool", [&] { max_pool(e, 2); }},
                       {"global_avg_pool", [&] { global_avg_pool(e); }}};
  for (const auto& [name, call] : calls) {
    const std::string text = test::message_of<Error>(call);
    EXPECT_THAT(text, StartsWith(name + ": "));
    EXPECT_THAT(text, HasSubstr("empty Tensor"));
  }
}

TEST(CallCheck, NamesTheFunctionInsteadOfTheOpThatItUses) {
  const Tensor x = ones({1, 2, 5, 5}), images = x.astype(u8), flat = ones({2, 6});
  const Calls calls = {
      {"global_max_pool: ", [&] { global_max_pool(images); }},
      {"global_avg_pool: data cpu(0) (1,2,5,5) u8", [&] { global_avg_pool(images); }},
      {"adaptive_avg_pool: ",
       [&] {
         adaptive_avg_pool(ones({1, 2, 0, 5}), 2);
       }},
      {"split: ", [&] { split(flat, 2, {.axis = 1, .squeeze_axis = true}); }},
      {"multi_clip_norm: ", [&] { multi_clip_norm({x}, zeros({1}), 1); }}};
  for (const auto& [begin, call] : calls)
    EXPECT_THAT(test::message_of<Error>(call), StartsWith(begin));
}

}  // namespace
}  // namespace locus
