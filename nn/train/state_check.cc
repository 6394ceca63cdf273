#include <locus/nn/train/state_check.h>

#include <algorithm>
#include <set>
#include <string_view>

#include <locus/core/error.h>

namespace locus::nn {
namespace {

std::string names(const NamedTensors& all) {
  return listed(all, [](const auto& each) { return each.first; });
}

}  // namespace

const Tensor& expect_like(const NamedTensors& given, const std::string& key, const Tensor& like,
                          const std::string& who) {
  const Tensor* const t = find_in(given, key);
  if (!t || !t->defined()) throw FormatError(who, ": '", key, "' is missing among ", names(given));
  if (t->shape() != like.shape())
    throw ShapeError(who, ": '", key, "' is ", describe(*t), "; expected shape ", like.shape());
  if (t->dtype() != like.dtype())
    throw DTypeError(who, ": '", key, "' is ", describe(*t), "; expected dtype ",
                     name(like.dtype()));
  return *t;
}

std::vector<const Tensor*> expect_states(const NamedTensors& given, const NamedTensors& own,
                                         const std::string& who, Caller from) {
  std::vector<const Tensor*> values;
  for (const auto& [key, tensor] : own) values.push_back(&expect_like(given, key, tensor, who));
  std::set<std::string_view> seen;
  for (const auto& [key, tensor] : given) {
    if (!find_in(own, key))
      throw FormatError(who, ": '", key, "' is none of the states: ", names(own));
    if (!seen.insert(key).second)
      throw FormatError(who, ": '", key, "' appears twice; expected each state once");
  }
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i].first.ends_with("/count") || i == 0)
      if (const int64_t n = values[i]->item<int64_t>(from); n < 0)
        throw FormatError(who, ": '", own[i].first, "' is ", n, "; expected a count");
  return values;
}

}  // namespace locus::nn
