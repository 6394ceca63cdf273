#!/usr/bin/env bash
# Builds the benchmarks, runs them and prints one table. All of them take some minutes.
#   ./scripts/bench.sh [Google Benchmark options, e.g. --benchmark_filter=add]
# ./build-bench/locus_bench --help lists them, once it is built.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
for argument in "$@"; do
  case $argument in -h | --help) usage ;; esac
done
setup bench
configure build-bench -DLOCUS_TESTS=OFF -DLOCUS_EXAMPLES=OFF -DLOCUS_BENCH=ON
build build-bench locus_bench
exec ./build-bench/locus_bench "$@"
