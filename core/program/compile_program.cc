#include <locus/core/program.h>

#include <memory>
#include <string>
#include <utility>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/program/once.h>
#include <locus/core/program/source_key.h>

namespace locus {

void KernelFunction::launch(StreamView s, const LaunchShape&, const void*, size_t) const {
  throw Error(s.context,
              " launches no functions of programs; call the address KernelFunction::host");
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
