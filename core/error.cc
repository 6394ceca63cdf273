#include <locus/core/error.h>

namespace locus {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(message + " (" + condition + " failed at " + file + ":" + std::to_string(line) + ")");
}

}  // namespace locus
