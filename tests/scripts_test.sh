#!/usr/bin/env bash
# What the scripts do around a build. They run in a copy, where small programs take the place of cmake
# and of what it builds.
#   tests/scripts_test.sh
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
clone=$folder/clone
mkdir -p "$clone/build" "$clone/build-bench" "$folder/bin" "$folder/user"
cp -r "$(dirname "$0")/../scripts" "$clone"
mkdir -p "$clone/examples/training"
cp "$(dirname "$0")/../examples/train_mlp.cc" "$clone/examples"
cp "$(dirname "$0")/../examples/training/options.cc" "$clone/examples/training"
fail() { cat "$folder/said"; printf 'scripts: %s\n' "$*"; exit 1; }
# program FILE: makes an executable file of stdin.
program() { cat > "$1"; chmod +x "$1"; }
# run COMMAND...: its exit status is $status, its output $folder/said.
run() { status=0; "$@" > "$folder/said" 2>&1 || status=$?; }
says() { grep -qF -- "$1" "$folder/said" || fail "expected: $1"; }

# Configuring leaves a cache with the options, all else does nothing.
program "$folder/bin/cmake" << 'PROGRAM'
#!/usr/bin/env bash
[ "$1 $3" = "-S -B" ] || exit 0
cache=$4/CMakeCache.txt
mkdir -p "$4"
[ -f "$cache" ] || printf '%s\n' "CMAKE_PROJECT_NAME:STATIC=locus" "CMAKE_GENERATOR:INTERNAL=Ninja" \
  "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "CMAKE_CXX_COMPILER:FILEPATH=$(command -v "$CXX")" > "$cache"
for option in "${@:7}"; do
  option=${option#-D}
  sed -i "/^${option%%=*}:/d" "$cache"
  echo "${option%%=*}:STRING=${option#*=}" >> "$cache"
done
PROGRAM
program "$folder/bin/nvidia-smi" <<< 'exit 1'
export PATH=$folder/bin:$PATH
unset CXX TEST_MNIST LOCUS_EMULATED_GPUS

# The first process of the first run prints TESTS and ends with STATUS, all others run no test.
program "$clone/build/locus_tests" << 'PROGRAM'
#!/usr/bin/env bash
if [ "$GTEST_SHARD_INDEX" = 0 ] && [ -z "${LOCUS_EMULATED_GPUS-}" ]; then
  printf "$TESTS"
  exit "$STATUS"
fi
echo "[==========] 0 tests from 0 test suites ran. (0 ms total)"
PROGRAM
# counts STATUS TESTS COUNTS WHY [TIMES]: what test.sh counts, and how often it says WHY.
counts() {
  STATUS=$1 TESTS=$2 run "$clone/scripts/test.sh" --no-cuda --build "$clone/build"
  says "== $3"
  [ "$(grep -c "process 1 of .* ended with status $1: $4" "$folder/said")" = "${5:-1}" ] || fail "expected: $4"
  if [[ $3 == *" 0 failed"* ]]; then [ $status = 0 ]; else [ $status = 1 ]; fi || fail "its status: $status"
}
ok='[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n'
bad='[ RUN      ] A.C\n[  FAILED  ] A.C (0 ms)\n'
ran='[==========] 2 tests from 1 test suite ran. (0 ms total)\n'
counts 0 "$ok$ran" "1 passed, 0 failed, 0 skipped" "" 0
counts 1 "$ok$bad$ran" "1 passed, 1 failed, 0 skipped" "" 0
counts 66 "$ok$ran" "1 passed, 1 failed, 0 skipped" "it failed, but none of its tests did"
counts 66 "$ok$bad$ran" "1 passed, 1 failed, 0 skipped" "" 0
counts 139 "${ok}[ RUN      ] A.D\n" "1 passed, 1 failed, 0 skipped" "it died in A.D"
counts 0 "${ok}[ RUN      ] A.D\n" "1 passed, 1 failed, 0 skipped" "it died in A.D"

# Paths that a user gives begin in the user's folder.
cd "$clone/scripts"
for script in train bench test format budget setup; do
  run ./$script.sh --help
  says "  ./scripts/$script.sh "
done
run ./train.sh -h
for option in --data --resume --plan --hidden --graph; do says " $option"; done
for program in build/train_mlp build-bench/locus_bench; do
  program "$clone/$program" << 'PROGRAM'
#!/bin/sh
echo "in $PWD: $*"
PROGRAM
done
cd "$folder/user"
run ../clone/scripts/train.sh --data digits --out=curves
says "in $PWD: --save $clone/out/mlp.params --data digits --out=curves"
run ../clone/scripts/train.sh --data digits --save mlp.params
says "in $PWD: --out $clone/out --data digits --save mlp.params"
run ../clone/scripts/train.sh --help
says "in $clone: --help"
run ../clone/scripts/bench.sh --benchmark_out=times
says "in $PWD: --benchmark_out=times"
run ../clone/scripts/bench.sh --compare none
says "$PWD/none cannot be read"
ln -s "$clone/build" here
STATUS=0 TESTS=$ok$ran run ../clone/scripts/test.sh --no-cuda --build here
says "== 1 passed, 0 failed"

# What train.sh configures: a new folder for this machine. An old folder gets what a GPU needs and no less
# than it has.
# has OPTION...: lines of the cache.
has() { for line in "$@"; do grep -qx "$line" "$clone/build/CMakeCache.txt" || fail "expected: $line"; done; }
train() { run "$clone/scripts/train.sh" --data digits; }
rm "$clone/build/CMakeCache.txt"
train
has LOCUS_TESTS:STRING=OFF LOCUS_CUDA:STRING=OFF
[ "$(uname -m)" != x86_64 ] || has 'LOCUS_ISAS:STRING=\(base\|v3\|v4\)'
program "$folder/bin/nvidia-smi" <<< 'exit 0'
train
has LOCUS_TESTS:STRING=OFF LOCUS_CUDA:STRING=AUTO
[ "$(uname -m)" != x86_64 ] || has 'LOCUS_ISAS:STRING=\(base\|v3\|v4\)'
STATUS=0 TESTS=$ok$ran run "$clone/scripts/test.sh" --build "$clone/build" --no-cuda
has LOCUS_TESTS:STRING=ON LOCUS_CUDA:STRING=OFF
train
has LOCUS_TESTS:STRING=ON LOCUS_CUDA:STRING=AUTO LOCUS_ISAS:STRING=all
program "$folder/bin/nvidia-smi" <<< 'exit 1'
STATUS=0 TESTS=$ok$ran run "$clone/scripts/test.sh" --build "$clone/build" --no-cuda
train
has LOCUS_TESTS:STRING=ON LOCUS_CUDA:STRING=OFF LOCUS_ISAS:STRING=all
rm "$clone/build/CMakeCache.txt"

# A build folder that cmake cannot go on in is removed if it is one of Locus, and kept if not.
# cache PROJECT GENERATOR HOME: a build folder with a file.
cache() {
  printf '%s\n' "CMAKE_PROJECT_NAME:STATIC=$1" "CMAKE_GENERATOR:INTERNAL=$2" "CMAKE_HOME_DIRECTORY:INTERNAL=$3" \
    > "$clone/build/CMakeCache.txt"
  touch "$clone/build/file"
}
for name in "another Ninja $folder" "another Makefiles $clone" "locus Ninja $folder" "locus Makefiles $clone"; do
  cache $name
  train
  says "was configured for"
  case $name in
    another*) [ $status = 1 ] && [ -e "$clone/build/file" ] || fail "$name: the folder is gone" ;;
    locus*) has LOCUS_EXAMPLES:STRING=ON; [ ! -e "$clone/build/file" ] || fail "$name: the folder is kept" ;;
  esac
done
touch "$clone/build/CMakeLists.txt"
cache locus Makefiles "$clone"
train
[ -e "$clone/build/file" ] || fail "a folder with sources was removed"
rm "$clone/build/CMakeLists.txt"
cache locus Ninja "$clone"
train
[ -e "$clone/build/file" ] || fail "a folder of this clone was removed"

# A compiler that is given is used, or the script fails. Another is the folder's own.
CXX=none run "$clone/scripts/setup.sh"
[ $status = 1 ] || fail "a missing compiler was accepted"
says "CXX=none: there is no such command"
program "$folder/bin/old" <<< 'echo 11'
CXX=old run "$clone/scripts/setup.sh"
[ $status = 1 ] || fail "an old compiler was accepted"
says "CXX=old: expected g++ 12"
program "$folder/user/new" <<< 'echo 99'
CXX=./new run "$clone/scripts/setup.sh"
says "compiler: $PWD/./new 99"
train
[ -e "$clone/build/file" ] || fail "a folder was removed"
echo "CMAKE_CXX_COMPILER:FILEPATH=$folder/bin/old" >> "$clone/build/CMakeCache.txt"
train
says "build keeps the compiler that it has: $folder/bin/old"
CXX=./new train
says "build was configured for $folder/bin/old, which is not CXX=$PWD/./new"
has "CMAKE_CXX_COMPILER:FILEPATH=$PWD/./new"
CXX=./new train
! grep "was configured for" "$folder/said" || fail "a folder with the compiler was removed"
