#pragma once

namespace locus {

void register_ledger();  // LOCUS_TRANSFERS is read at the first copy, wait or launch
// LOCUS_MEMORY is read at the first allocation. Call it before the program makes global objects:
// the report of leaks comes after their destruction.
void register_memory_tools();

}  // namespace locus
