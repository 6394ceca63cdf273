#include <algorithm>

#include <locus/core/base/table.h>
#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/memory_tools.h>

namespace locus {

std::string memory_summary(Context c) {
  Device& d = device(c);
  const MemoryStats pool = d.allocator().stats();
  const MemoryInfo all = d.memory();
  // Another thread may take memory between the two calls.
  const size_t in_use = std::min(pool.in_use, pool.reserved);
  const size_t used = std::max(all.total - std::min(all.free, all.total), pool.reserved);
  const auto row = [](const char* what, size_t bytes, const std::string& note) {
    return std::vector<std::string>{what, memory_text(bytes), note};
  };
  const std::string rest = is_host(c) ? "all else of this and other programs"
                                      : "driver, loaded code, libraries, other programs";
  std::string text = text_of(c, ", ", d.info().name, ": ", memory_text(used), " used of ",
                             memory_text(all.total), '\n');
  for (const std::string& line :
       table_lines({row("  live blocks", in_use, text_of("peak ", memory_text(pool.peak))),
                    row("  free blocks that the pool keeps", pool.reserved - in_use,
                        text_of("memory_pool(", c, ").release_cached() returns unused segments")),
                    {"  " + rest, memory_text(used - pool.reserved), ""}},
                   "lrl"))
    text += line + '\n';
  if (pool.limit != 0) text += text_of("limit of the pool: ", memory_text(pool.limit), '\n');
  return text;
}

}  // namespace locus
