// Internals of CachingPool, shared by pool_blocks.cc and pool_shortage.cc.
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

// A block in use, or a free part of a segment. Chunks are linked by address.
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
  // Freed blocks of one size, not merged back yet. Their chunks are not marked free.
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
