#include <locus/core/program.h>

#include <memory>
#include <string>
#include <utility>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/program/once.h>
#include <locus/core/program/source_key.h>

namespace locus {

namespace {

[[noreturn]] void no_launch(Context c) {
  throw Error(c, " launches no functions of programs; call the address KernelFunction::host");
}

}  // namespace

void KernelFunction::launch(StreamView s, const LaunchShape&, const void*, size_t) const {
  no_launch(s.context);
}
void KernelFunction::launch(StreamView s, const LaunchShape&, std::span<const void* const>) const {
  no_launch(s.context);
}
const KernelAttributes& KernelFunction::attributes() const {
  throw Error("a function of a host context has no attributes; expected one of a GPU");
}
int64_t KernelFunction::max_active_blocks(const LaunchShape&) const {
  throw Error("a function of a host context has no blocks; expected one of a GPU");
}

unsigned* KernelFunction::counters(StreamView s, int) const {
  throw Error(s.context, " has no counters: its functions run on the host");
}

std::unique_ptr<KernelProgram> Device::build(const ProgramSource& source) {
  throw UnsupportedOnContext(source.name, ": this type of device compiles no kernels at run time; ",
                             "call it on cpu(0), or implement Device::build");
}

const KernelProgram* compile_program(Context c, const ProgramSource& source) {
  using Programs = Once<std::string, std::shared_ptr<const KernelProgram>>;
  static Programs& programs = *new Programs;  // never destroyed, like devices
  return programs
      .get(text_of(c, ' ', source_key(source)),
           [&] { return std::shared_ptr<const KernelProgram>(device(c).build(source)); })
      .get();
}

}  // namespace locus
