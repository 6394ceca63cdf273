// The order in which an epoch's samples come: the same for every loader, context and machine.
#pragma once

#include <cstdint>
#include <vector>

namespace locus::data {

enum class LastBatch : uint8_t { keep, discard, rollover };

class Order {
 public:
  // `who` names the loader in errors: batch_size must be > 0 and samples < 2^31.
  Order(const char* who, int64_t samples, int64_t batch_size, bool shuffle, LastBatch last,
        uint64_t seed);
  int64_t batches() const;      // in the next epoch
  std::vector<int32_t> next();  // the samples of the next epoch

 private:
  int64_t deliverable() const;

  int64_t samples_, batch_size_;
  bool shuffle_;
  LastBatch last_;
  uint64_t seed_, epoch_ = 0;
  std::vector<int32_t> carried_;  // rollover: what the last epoch left
};

}  // namespace locus::data
