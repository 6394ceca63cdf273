#include <locus/core/named_calls.h>

#include <map>
#include <string>

#include <locus/core/mutex.h>

namespace locus {

const char* NamedCalls::with_caller(const Op& op) {
  struct Names {
    Mutex mutex;
    std::map<std::pair<const char*, const Op*>, std::string> all LOCUS_GUARDED_BY(mutex);
  };
  static Names& names =
      *new Names;  // never destroyed: threads may call ops while the process exits
  const MutexLock lock(names.mutex);
  std::string& name = names.all[{innermost, &op}];
  if (name.empty()) name = std::string(innermost) + ": " + op.name;
  return name.c_str();
}

}  // namespace locus
