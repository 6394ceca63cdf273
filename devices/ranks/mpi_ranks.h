// MPI, known to mpi_ranks.cc only; in a build without it a process that was started with others is
// an Error.
#pragma once

namespace locus {

void register_ranks();  // set_ranks(); idempotent

}  // namespace locus
