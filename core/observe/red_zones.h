// LOCUS_MEMORY=redzones: guard bytes before and after every block of a memory pool, with a known
// pattern. Internal to core and devices.
//
// A pool serves a block that is larger by two zones, and passes it to open(). Before the pool takes
// the block back, it calls close(). Threads: any.
#pragma once

#include <cstddef>
#include <span>

#include <locus/core/caller.h>
#include <locus/core/device.h>

namespace locus::red_zones {

// The bytes of a zone, a multiple of the pool's rounding; 0 without red zones.
size_t zone(size_t rounding);

// Fills both zones of `block`, in the order of `stream`. Returns the address that the user gets.
void* open(void* block, size_t bytes, size_t zone, StreamView stream, Context c);

// A block as the pool knows it.
struct Block {
  void* data;
  size_t bytes;
};
// Reads the zones in the order of `stream`, after the events in `pending`. If the block has zones,
// takes ownership of these events and empties `pending`.
Block close(void* data, size_t bytes, StreamView stream, Context c,
            std::span<const EventView>& pending) noexcept;

// Checks the zones of live blocks, and of blocks that were freed. Throws MemoryError for those that
// are damaged. Waits for copies of the zones.
void check(Caller from);
// The same check, with the text on stderr.
void check_at_exit() noexcept;

}  // namespace locus::red_zones
