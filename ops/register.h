// Registration of the built-in ops and devices. Every ops header includes register.h: built-ins are
// registered before the program's own globals are built, also with a static library.
#pragma once

namespace locus {

bool register_builtins();  // idempotent
inline const bool kBuiltins = register_builtins();

}  // namespace locus
