// Core's part of register_builtins() (ops/register.h).
#pragma once

namespace locus {

void register_copyto();

}  // namespace locus
