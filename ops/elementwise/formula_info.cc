#include <locus/ops/elementwise/formula_info.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <utility>

#include <locus/core/base/mutex.h>

namespace locus::formula {
namespace {

struct All {
  Mutex mutex;
  std::unordered_map<const Op*, std::unique_ptr<const Info>> by_op LOCUS_GUARDED_BY(mutex);
};
All& all() {
  static All& made = *new All;  // never destroyed, as ops are
  return made;
}

}  // namespace

const Info* info_of(const Op& op) {
  const MutexLock lock(all().mutex);
  const auto found = all().by_op.find(&op);
  return found == all().by_op.end() ? nullptr : found->second.get();
}

void set_info(const Op& op, Info info) {
  const MutexLock lock(all().mutex);
  all().by_op[&op] = std::make_unique<const Info>(std::move(info));
}

std::string text_of_type(const std::type_info& type) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : type.name();
}

}  // namespace locus::formula
