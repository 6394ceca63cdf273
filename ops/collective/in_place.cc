// Collectives of many tensors, in place.
#include <algorithm>
#include <map>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/core/parallel.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/call_check.h>
#include <locus/ops/collective.h>
#include <locus/ops/collective/exchange.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/collective/tree.h>

namespace locus {
namespace {

// Throws unless the tensors may be written in place. Calls f(parts).
void check_many(const Op& op, const Group& group, std::span<const Tensors> tensors, const auto& f) {
  for (const Tensors& parts : tensors) {
    named(op.name, [&] {
      check_parts(group, parts);
      f(parts);
    });
    for (const Tensor& part : parts) check_in_place(op.name, {}, part);
  }
  for (int i = 0; i < group.size(); ++i) {
    std::vector<Ref> here;
    for (const Tensors& parts : tensors) here.emplace_back(parts[static_cast<size_t>(i)]);
    detail::check_apart(op, here, 0);
  }
}

void check_roots(const Op& op, const Group& group, size_t tensors, std::span<const int> roots) {
  named(op.name, [&] {
    if (roots.size() != tensors)
      throw Error(roots.size(), " roots for ", tensors, " tensors; expected one each");
    for (const int root : roots) check_root(group, root);
  });
}

}  // namespace

void all_reduce_many(const Group& group, std::span<const Tensors> tensors,
                     const AllReduceManyOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::called_as("all_reduce_many", "all_reduce", [&] {
    check_many(get_op("all_reduce"), group, tensors,
               [&](const Tensors& parts) { check_op(options.op, parts[0]); });
  });
  const auto one = [&](size_t k) {
    all_reduce(group, tensors[k], {.op = options.op, .out = tensors[k]}, from);
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
  AllReduceManyOptions these = options;
  bool followed = !options.behind;
  for (const auto& [dtype, numbers] : together) {
    these.behind = dtype == together.rbegin()->first ? options.behind : nullptr;
    Tensors all;
    for (const size_t k : numbers) all.insert(all.end(), tensors[k].begin(), tensors[k].end());
    if (all_reduce_on_devices(group, all, all, these, from))
      followed = followed || these.behind;
    else
      for (const size_t k : numbers) one(k);
  }
  if (!followed) on_threads(group.contexts(), options.behind);
} catch (const Error&) {
  rethrow_at(from);
}

void reduce_many(const Group& group, std::span<const Tensors> tensors, std::span<const int> roots,
                 const AllReduceManyOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::called_as("reduce_many", "reduce", [&] {
    const Op& op = get_op("reduce");
    check_roots(op, group, tensors.size(), roots);
    check_many(op, group, tensors, [&](const Tensors& parts) { check_op(options.op, parts[0]); });
  });
  std::vector<Piece> pieces;
  for (size_t k = 0; k < tensors.size(); ++k)
    pieces.push_back({tensors[k], tensors[k][static_cast<size_t>(roots[k])]});
  exchange(group, pieces, options.op, options.beside, from);
  if (options.behind) on_threads(group.contexts(), options.behind);
} catch (const Error&) {
  rethrow_at(from);
}

void broadcast_many(const Group& group, std::span<const Tensors> tensors,
                    std::span<const int> roots, Caller from) try {
  const UserLine user_line(from);
  detail::called_as("broadcast_many", "copyto", [&] {
    const Op& op = get_op("copyto");
    check_roots(op, group, tensors.size(), roots);
    check_many(op, group, tensors, [](const Tensors&) {});
  });
  std::vector<Piece> pieces;
  for (size_t k = 0; k < tensors.size(); ++k)
    for (const Tensor& t : tensors[k])
      if (const Tensor& root = tensors[k][static_cast<size_t>(roots[k])]; !t.is(root))
        pieces.push_back({{root}, t});
  exchange(group, pieces, {}, false, from);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
