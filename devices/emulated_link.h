// The link model of emulated GPUs: how long copies to, from and between them take. The variable
// LOCUS_EMULATED_LINK sets the model.
//
//   LOCUS_EMULATED_LINK="h2d=55,d2h=55,peer=395,latency_us=8"
//
// h2d, d2h and peer are GB/s (10^9 bytes) of one direction. Every copy takes latency_us more. A
// missing key has the value above.
//
// Each GPU has four ports: to and from the host, to and from the other GPUs. A copy holds its ports
// for latency + bytes / bandwidth, first come, first served. Two uploads to one GPU share its link;
// an upload and a download do not. A copy within one GPU uses no link.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

#include <locus/core/kernel.h>
#include <locus/devices/emulated/emulated_pace.h>

namespace locus::emulated {

struct LinkModel {
  double h2d = 55, d2h = 55, peer = 395;  // GB/s
  double latency_us = 8;

  // If `text` is malformed, parse throws Error with the variable, the key and the accepted values.
  static LinkModel parse(std::string_view text);
  std::chrono::nanoseconds duration(Context from, Context to, size_t bytes) const;
};

// The model of the process. nullopt: copies take their real time. Set the model while no work is in
// flight.
void set_link_model(const std::optional<LinkModel>& model);
const std::optional<LinkModel>& link_model();

// Copies src to dst, from `start` on. Returns the modelled time of arrival; without a model,
// `start`.
Clock::time_point copy_over_link(void* dst, Context to, const void* src, Context from, size_t bytes,
                                 Clock::time_point start);

// --- Details ---
//
// - The bytes move at the end of the modelled time. A program that reuses memory too early sees it.
// - A copy is never faster than this machine's memory (about 10 GB/s a core). The first large copy
// that takes longer than the model prints a line on stderr.
// - An upload and a download on one stream, as copies that block are, take turns.
// - Under a model kernels take modelled time, too. All times are those of the queues' clocks
// (emulated_pace.h).

}  // namespace locus::emulated
