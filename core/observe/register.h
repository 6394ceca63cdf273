#pragma once

namespace locus {

void register_ledger();  // LOCUS_TRANSFERS is read at the first copy, wait or launch

}  // namespace locus
