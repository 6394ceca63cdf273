// The pool's inside, shared by pool_blocks.cc (blocks) and pool_shortage.cc (what happens without
// one).
#pragma once

#include <set>

#include <locus/devices/pool.h>

namespace locus {

struct CachingPool::Segment {
  char* data;
  size_t size;
  Kind kind;
  Chunk* first;
};

// A block, or a free stretch of a segment. Chunks of a segment are linked by address.
struct CachingPool::Chunk {
  char* data;
  size_t size;
  Segment* segment;
  StreamBlocks* owner;  // whose stream may reuse it
  Chunk* previous = nullptr;
  Chunk* next = nullptr;
  bool free = false;
};

struct CachingPool::StreamBlocks {
  // Freed blocks of one size that were not merged back yet; the pool counts them as in use.
  struct Bin {
    std::unique_ptr<void*[]> blocks;
    int count = 0, capacity = 0;
  };
  struct Smaller {
    bool operator()(const Chunk* a, const Chunk* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  static constexpr int kBins = 128;

  StreamView stream;
  bool retired = false;
  Bin bins[kBins];
  std::set<Chunk*, Smaller> free[3];  // by Kind of their segment
};

struct CachingPool::Deferred {
  void* block;
  size_t bytes;
  StreamView stream;
  std::vector<EventView> pending;
};

}  // namespace locus
