#include <locus/core/call/named_calls.h>

#include <set>

#include <locus/core/base/mutex.h>
#include <locus/core/base/text.h>
#include <locus/core/call/invoke_check.h>

namespace locus {

const char* NamedCalls::with(const Op& op) const {
  struct Names {
    Mutex mutex;
    std::set<std::string> all LOCUS_GUARDED_BY(mutex);
  };
  static Names& names =
      *new Names;  // never destroyed: threads may call ops while the process exits
  const MutexLock lock(names.mutex);
  return names.all.insert(text_of(who_, ": ", what_, ": ", op.name)).first->c_str();
}

std::string NamedCalls::in_front(std::string_view name, std::string_view text) {
  const size_t colon = name.rfind(": ");
  const std::string_view op = colon == std::string_view::npos ? name : name.substr(colon + 2);
  const std::string_view begin = text.substr(0, text.find(':'));
  if (op.starts_with(begin) || op.ends_with(begin)) name.remove_suffix(op.size());
  return text_of(name, name.empty() || name.ends_with(": ") ? "" : ": ", text);
}

std::string found_later(Context c) {
  if (detail::sync_each()) return "";
  return text_of(" (found asynchronously on ", c, "; LOCUS_SYNC=1 finds it at its call)");
}

}  // namespace locus
