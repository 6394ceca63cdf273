// Streams of no device: where memory is at home while work is recorded (recording.h). Nothing is
// enqueued there, and what is freed there is in no use any more.
#pragma once

#include <locus/core/kernel.h>

namespace locus {

bool is_recording_home(StreamView s);  // threads: any

}  // namespace locus
