#!/usr/bin/env bash
# Builds the benchmarks, runs them and prints one table. All of them take some minutes.
#   ./scripts/bench.sh [--compare TABLE] [Google Benchmark options, e.g. --benchmark_filter=add]
# With --compare the lines that differ from TABLE by more than a tenth follow, the slowest first.
# TABLE is an earlier output, such as a file of tests/bench/results.
# ./build-bench/locus_bench --help lists Google Benchmark's options, once it is built.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
table=""
options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage ;;
    --compare) table=$(value $1 "a table" "${2-}"); table=$(from_start "$table"); shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ -z "$table" ] || [ -r "$table" ] || fail "--compare: $table cannot be read"
setup bench
configure build-bench -DLOCUS_TESTS=OFF -DLOCUS_EXAMPLES=OFF -DLOCUS_BENCH=ON
build build-bench locus_bench
bench=$PWD/build-bench/locus_bench
cd "$started_in"
[ -n "$table" ] || exec "$bench" "${options[@]}"

# A line: the name in 64 columns, the microseconds in 13.
"$bench" "${options[@]}" | tee /dev/stderr |
  awk '{name = substr($0, 1, 64); us = substr($0, 65, 13) + 0}
       NR == FNR {was[name] = us; next}
       us > 0 && was[name] > 0 {
         ratio = us / was[name]
         if (ratio > 1.1 || ratio < 1 / 1.1) printf "%6.2f  %s %12.2f  was %12.2f\n", ratio, name, us, was[name]
       }' "$table" - | sort -rn
