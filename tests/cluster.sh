#!/usr/bin/env bash
# Runs several ranks on this machine by mpirun. They compute what one process computes, with equal
# bits in each run, resume each other's checkpoints, and end together.
#   tests/cluster.sh BUILD_FOLDER [required]    skips without MPI; with `required` that is a failure
set -euo pipefail
build=$(realpath "$1")
if ! command -v mpirun > /dev/null || ! grep -q '^LOCUS_HAS_MPI:INTERNAL=ON' "$build/CMakeCache.txt"; then
  echo "ranks: skipped, there is no MPI"
  [ "${2:-}" != required ]
  exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One machine: no network, no remote shell, more ranks than processors.
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm=isolated
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export TEST_RANKS=1 TEST_FOLDER=$folder/run
# Ignores leaks in the launcher's library.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}

# ranks N FILTER [options]: runs the tests on N ranks; output in $folder/said
ranks() {
  local n=$1 filter=$2
  shift 2
  timeout 300 mpirun -np "$n" "$build/locus_tests" --gtest_filter="ClusterRanks.$filter" \
    --gtest_color=no "$@" > "$folder/said" 2>&1 || return
  grep -qE '^\[  PASSED  \] [1-9]' "$folder/said" || said "no test is ClusterRanks.$filter"
}
said() {
  cat "$folder/said"
  echo "ranks: $*"
  exit 1
}
good() { ranks "$@" || said "failed: $*"; }

for gpus in 0 4; do
  [ $gpus = 0 ] || export LOCUS_EMULATED_GPUS=$gpus
  good 4 '*'
  grep -m 1 '^bits' "$folder/said" > "$folder/bits.$gpus"
  echo "ranks: four give what one process gives, $gpus emulated GPUs"
done
good 2 '*'
good 4 '*SameBits*'
grep -m 1 '^bits' "$folder/said" | cmp - "$folder/bits.0"
cmp "$folder/bits.0" "$folder/bits.4"
echo "ranks: bit-equal from run to run"

good 4 '*SaveHalfWay' --gtest_also_run_disabled_tests
for n in 2 3 4; do good $n '*GoOnFromHalfWay' --gtest_also_run_disabled_tests; done
echo "ranks: two, three and four ranks resume the checkpoint of four"

# ends N TEST TEXT [options]: expects a failure within 30 s that prints TEXT
ends() {
  local n=$1 test=$2 text=$3 status=0 started=$SECONDS
  shift 3
  ranks "$n" "*$test" --gtest_also_run_disabled_tests "$@" || status=$?
  [ $status != 0 ] || said "$test ended well"
  [ $((SECONDS - started)) -lt 30 ] || said "$test took $((SECONDS - started)) s"
  grep -qE "$text" "$folder/said" || said "$test did not say: $text"
  echo "ranks: $test ended all in $((SECONDS - started)) s"
}
ends 4 OneIsKilled 'process rank 1 .*signal 9'
ends 4 OneThrows 'rank 1 of 4.* what rank 1 threw' --gtest_catch_exceptions=0
good 2 '*AChildThrows' --gtest_also_run_disabled_tests
ends 4 OneExits 'rank 1 of 4.* it ended with status 3'
ends 4 OneLeavesEarly 'rank 1 the end of the program'
status=0
timeout 60 mpirun -np 2 bash -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || exec sleep 90
  exec "$0/locus_tests" --gtest_filter=Cluster.AProcessAloneIsRank0Of1' "$build" \
  > "$folder/said" 2>&1 || status=$?
[ $status = 1 ] && grep -q 'not all of the 2 ranks came within 25 s' "$folder/said" ||
  said "a rank that never came ended the other with $status"
echo "ranks: one that never comes ends all"

# trains N OPTIONS: runs train_mlp on N ranks with drawn digits, without a GPU: there may be more ranks
# than GPUs.
trains() {
  local n=$1
  shift
  (cd "$folder" && unset LOCUS_EMULATED_GPUS && export CUDA_VISIBLE_DEVICES= &&
    timeout 120 mpirun -np "$n" "$build/train_mlp" --distributed --batch-size 240 --hidden 16 "$@" > said 2>&1)
}
if [ -x "$build/train_mlp" ]; then
  trains 2 --epochs 2 --out two || said "train_mlp on two ranks failed"
  (cd "$folder" && "$build/train_mlp" --context 'cpu(0)' --batch-size 240 --hidden 16 --epochs 2 --out one > said) ||
    said "train_mlp failed"
  # epoch, step, loss, ...: losses differ by rounding, because sums have another order
  paste -d, "$folder/one/history.csv" "$folder/two/history.csv" |
    awk -F, 'NR > 1 { d = $3 - $(NF / 2 + 3); if (!(d * d <= 1e-4 * $3 * $3)) exit 1 } END { if (NR < 3) exit 1 }' ||
    said "two ranks do not train as one process does"
  trains 2 --epochs 100 --checkpoint "$folder/kept" & mpi=$!
  for _ in $(seq 100); do tr '\r' '\n' < "$folder/said" | grep -q 'epoch 3/' && break; sleep .2; done
  pkill -INT -f "^$build/train_mlp .*$folder/kept" || said "no rank to stop"
  status=0
  wait $mpi || status=$?
  [ $status = 130 ] && grep -q 'continue with --resume' "$folder/said" &&
    ! grep -q 'ends all ranks' "$folder/said" || said "stopped ranks ended with $status"
  trains 4 --epochs 100 --checkpoint "$folder/kept" --resume || said "four ranks do not continue"
  echo "ranks: train_mlp gives what one process gives, stops and continues"
fi
export LOCUS_CLUSTER_TIMEOUT=3
good 2 '*OneReadsItsDataForLong' --gtest_also_run_disabled_tests
echo "ranks: one may read its data for long"
hangs() {
  ends "$1" OneHangs "$2"
  if grep -q 'Failure$' "$folder/said"; then said "ranks that waited did not throw"; fi
}
hangs 4 'rank 1 did not reach this call within 3 s'
hangs 2 'rank 0 did not answer within'
