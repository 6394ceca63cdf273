#include <locus/core/rank_purpose.h>

#include <utility>

namespace locus::cluster {
namespace {

thread_local std::string purpose;

}  // namespace

Purpose::Purpose(std::string text)
    : outer_(std::exchange(purpose, purpose.empty() ? text : purpose + ": " + text)) {}
Purpose::~Purpose() { purpose = std::move(outer_); }

const std::string& Purpose::here() { return purpose; }

}  // namespace locus::cluster
