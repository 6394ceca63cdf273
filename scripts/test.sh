#!/usr/bin/env bash
# Builds everything and runs the tests: on this machine's devices, then with four emulated GPUs.
#   ./scripts/test.sh [--no-cuda] [--sanitize address,undefined] [--filter 'Print.*'] [--build DIR]
#                     [--bench]
# Tests of real data take MNIST from TEST_MNIST=DIR or data/mnist, and skip without.
# With --sanitize the tests alone are built, without CUDA, in a folder of their own, and run once, with
# four emulated GPUs: this covers the CPU, too. With --bench the benchmarks are built, too, but not run.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

cuda=AUTO sanitize="" filter="*" folder="" bench=OFF
while [ $# -gt 0 ]; do
  case $1 in
    --no-cuda) cuda=OFF ;;
    --sanitize) sanitize=$(value $1 "a list, such as address,undefined" "${2-}"); shift ;;
    --filter) filter=$(value $1 "a GoogleTest filter, such as 'Print.*'" "${2-}"); shift ;;
    --bench) bench=ON ;;
    -h | --help) usage ;;
    --build) folder=$(value $1 "a folder" "${2-}"); folder=$(from_start "$folder"); shift ;;
    *) fail "unknown option '$1': expected --no-cuda, --sanitize LIST, --filter F, --build DIR or" \
            "--bench" ;;
  esac
  shift
done
isas=all target=all
if [ -n "$sanitize" ]; then
  target=locus_tests
  cuda=OFF isas=base  # sanitizers check the source, which all copies of the CPU kernels share
  folder=${folder:-build-${sanitize//,/-}}
elif [ $cuda = OFF ]; then
  folder=${folder:-build-cpu}
fi
folder=${folder:-build}

purposes=(test)
[ $bench = OFF ] || purposes+=(bench)
setup "${purposes[@]}"
[ -n "$NVCC" ] || cuda=OFF
configure "$folder" -DLOCUS_TESTS=ON -DLOCUS_EXAMPLES=ON -DLOCUS_BENCH=$bench \
  -DLOCUS_CUDA=$cuda -DLOCUS_ISAS=$isas -DLOCUS_SANITIZE="$sanitize"
build "$folder" "$target"
for check in families options refused_code; do
  (cd "$folder" && cmake -Dcompiler="$(option . CMAKE_CXX_COMPILER)" -P "$OLDPWD/tests/${check}_test.cmake")
done

TEST_MNIST=$(if [ -n "${TEST_MNIST-}" ]; then from_start "$TEST_MNIST"; else realpath -m data/mnist; fi)
export TEST_MNIST
[ ! -e "$TEST_MNIST/train-images-idx3-ubyte.gz" ] || say "MNIST: $TEST_MNIST"
# A test asks for more memory than there is: a sanitizer is to answer as the system would.
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}

passed=0 failed=0 skipped=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# failures_of LOG: what the tests that did not pass printed, and what came outside of tests.
failures_of() {
  awk '/^\[ RUN      \]/ { test = ""; inside = 1 }
       inside { test = test $0 "\n"; if (/^\[       OK |^\[  SKIPPED /) inside = 0 }
       inside && /^\[  FAILED  \]/ { printf "%s", test; inside = 0; next }
       !inside && !/^\[( RUN      |       OK |  SKIPPED |---)/ && NF
       END { if (inside) printf "%s", test }' "$1"
}

# run_tests NAME SHARDS: the tests, cut into processes that run side by side. A process that ends before
# its last test counts as a failed test. So does one that fails although no test failed: a sanitizer or
# a destructor at its end did it.
run_tests() {
  local name=$1 shards=$2 i pids=() status log bad why
  say "tests: $name"
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$folder/locus_tests" \
      --gtest_filter="$filter" > "$logs/$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < shards; ++i)); do
    status=0 why="" log=$logs/$i
    wait "${pids[$i]}" 2> /dev/null || status=$?
    bad=$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' "$log" || true)
    passed=$((passed + $(grep -c '^\[       OK \]' "$log" || true)))
    skipped=$((skipped + $(grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$log" || true)))
    if ! grep -qE '^\[=+\] .* ran\.' "$log"; then
      why="died in $(sed -n 's/^\[ RUN *\] //p' "$log" | tail -1)"
    elif [ $status != 0 ] && [ "$bad" = 0 ]; then
      why="failed, but none of its tests did"
    fi
    if [ $status != 0 ] || [ -n "$why" ]; then
      failures_of "$log" | awk 'NR <= 400'
    fi
    if [ -n "$why" ]; then
      bad=$((bad + 1))
      say "process $((i + 1)) of $shards ended with status $status: it $why"
    fi
    failed=$((failed + bad))
  done
}

# A real GPU's memory is not shared out between processes.
shards=$JOBS
if [ $cuda != OFF ] && has_gpu; then
  run_tests "real GPUs" 1
elif [ -z "$sanitize" ]; then
  run_tests "this machine" "$shards"
fi
LOCUS_EMULATED_GPUS=4 run_tests "four emulated GPUs" "$shards"

say "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
