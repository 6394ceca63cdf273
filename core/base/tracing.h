// Whether a function is being traced (traced_calls.h). Internal to core and ops/fuse.
#pragma once

#include <string>

namespace locus::capture {

bool tracing();  // in this thread
// Throws CaptureError while tracing: `what` reads values.
void refuse_values(const std::string& what);

}  // namespace locus::capture
