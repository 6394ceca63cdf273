#include <locus/core/program.h>

#include <memory>
#include <string>
#include <utility>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/program/once.h>

namespace locus {
namespace {

// All fields with their lengths, so that different sources have different keys.
std::string key_of(Context c, const ProgramSource& source) {
  std::string key =
      text_of(static_cast<int>(c.type), ' ', c.index, ' ', source.contract, ' ',
              reinterpret_cast<uintptr_t>(source.headers.data()), ' ', source.headers.size());
  const auto add = [&key](std::string_view field) {
    key += text_of('\n', field.size(), ' ', field);
  };
  add(source.name);
  add(source.text);
  add(text_of(source.functions.size()));
  for (const std::string& name : source.functions) add(name);
  for (const std::string& option : source.options) add(option);
  return key;
}

}  // namespace

void Function::launch(StreamView s, const LaunchShape&, const void*, size_t) const {
  throw Error(s.context, " launches no functions of programs; call the address Function::host");
}

std::unique_ptr<Program> Device::build(const ProgramSource& source) {
  throw UnsupportedOnContext(source.name, ": this type of device compiles no kernels at run time; ",
                             "call it on cpu(0), or implement Device::build");
}

const Program& compile_program(Context c, const ProgramSource& source) {
  using Programs = Once<std::string, std::shared_ptr<const Program>>;
  static Programs& programs = *new Programs;  // never destroyed, like devices
  return *programs.get(key_of(c, source),
                       [&] { return std::shared_ptr<const Program>(device(c).build(source)); });
}

}  // namespace locus
