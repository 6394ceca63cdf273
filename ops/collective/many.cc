// Many tensors at once, in place.
#include <algorithm>
#include <map>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/invoke_check.h>
#include <locus/core/op.h>
#include <locus/core/tape.h>
#include <locus/ops/collective.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/collective/tree.h>

namespace locus {
namespace {

// In place, of each on all contexts; with roots on one.
void combine_many(const char* name, const Group& group, std::span<const Tensors> tensors,
                  std::span<const int> roots, const AllReduceManyOptions& options, Caller from) {
  const auto [how, beside] = options;
  const Op& op = get_op(name);
  for (const Tensors& parts : tensors) {
    named(name, [&] {
      check_parts(group, parts);
      check_op(how, parts[0]);
    });
    for (const Tensor& part : parts) check_in_place(op, {}, part);
  }
  for (int i = 0; i < group.size(); ++i) {
    std::vector<Ref> here;
    for (const Tensors& parts : tensors) here.emplace_back(parts[static_cast<size_t>(i)]);
    detail::check_apart(op, here, 0);
  }
  const auto one = [&](size_t k) {
    const Tensors& parts = tensors[k];
    if (roots.empty())
      all_reduce(group, parts, {.op = how, .out = parts}, from);
    else
      combine_up(parts, how, from).copyto(parts[static_cast<size_t>(roots[k])], {}, from);
  };
  std::map<DType, std::vector<size_t>> together;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const bool apart =
        tensors[k][0].size() == 0 || !std::ranges::all_of(tensors[k], &Tensor::contiguous);
    if (apart)
      one(k);
    else
      together[tensors[k][0].dtype()].push_back(k);
  }
  for (const auto& [dtype, numbers] : together) {
    Tensors all;
    for (const size_t k : numbers) all.insert(all.end(), tensors[k].begin(), tensors[k].end());
    if (all_reduce_on_devices(group, all, all, how, beside, from)) continue;
    for (const size_t k : numbers) one(k);
  }
}

}  // namespace

void all_reduce_many(const Group& group, std::span<const Tensors> tensors,
                     const AllReduceManyOptions& options, Caller from) {
  combine_many("all_reduce", group, tensors, {}, options, from);
}

void reduce_many(const Group& group, std::span<const Tensors> tensors, std::span<const int> roots,
                 const AllReduceManyOptions& options, Caller from) {
  named("reduce", [&] {
    if (roots.size() != tensors.size())
      throw Error(roots.size(), " roots for ", tensors.size(), " tensors; expected one each");
    for (const int root : roots) check_root(group, root);
  });
  combine_many("reduce", group, tensors, roots, options, from);
}

}  // namespace locus
