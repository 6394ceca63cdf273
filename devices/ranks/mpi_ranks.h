// MPI, known to mpi_ranks.cc only. In a build without MPI, cluster::init() throws Error if a
// launcher started several processes.
#pragma once

namespace locus {

void register_ranks();  // set_ranks(); idempotent

}  // namespace locus
