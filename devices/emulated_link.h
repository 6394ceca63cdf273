// How long copies to, from and between emulated GPUs take: LOCUS_EMULATED_LINK.
//
//   LOCUS_EMULATED_LINK="h2d=55,d2h=55,peer=395,latency_us=8"
// h2d, d2h and peer are GB/s (10^9 bytes) of one direction, latency_us is added to every copy; a
// key left out has the value above. Each GPU has four ports: to and from the host, to and from the
// other GPUs. A copy holds its ports for latency + bytes / bandwidth, first come, first served, so
// two uploads to one GPU share its link and an upload and a download do not; where they are on one
// stream, as copies that block are, they take turns by that. A copy within one GPU crosses no link.
//
// The bytes really move, at the end of that time: a program that reuses memory too early sees it.
// So a copy is never faster than this machine's memory (about 10 GB/s a core), whatever the model
// says; the first large one that takes longer says so on stderr. Kernels take modelled time then
// too, and it is the queues' clocks that all of this is by: emulated_pace.h.
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

  // Throws Error naming the variable, the key and what it accepts.
  static LinkModel parse(std::string_view text);
  std::chrono::nanoseconds duration(Context from, Context to, size_t bytes) const;
};

// The model of the process; nullopt: copies take the time they take. Set it while nothing is under
// way.
void set_link_model(const std::optional<LinkModel>& model);
const std::optional<LinkModel>& link_model();

// Copies src to dst, from `start` on, and returns when the model says that they have arrived;
// `start` without one.
Clock::time_point copy_over_link(void* dst, Context to, const void* src, Context from, size_t bytes,
                                 Clock::time_point start);

}  // namespace locus::emulated
