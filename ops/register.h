// Included by every ops header: a program that uses an op has the built-in ops and devices
// registered before its own globals are built, also when Locus is a static archive.
#pragma once

namespace locus {

bool register_builtins();  // idempotent
inline const bool kBuiltins = register_builtins();

}  // namespace locus
