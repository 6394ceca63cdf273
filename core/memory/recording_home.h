// Streams of no device: homes of memory while work is recorded without running (recording.h).
// Nothing is enqueued there, and memory freed there is idle.
#pragma once

#include <locus/core/kernel.h>

namespace locus {

bool is_recording_home(StreamView s);  // threads: any

}  // namespace locus
