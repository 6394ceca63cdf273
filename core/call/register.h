// What register_builtins() (ops/register.h) registers of core.
#pragma once

namespace locus {

void register_copyto();

}  // namespace locus
