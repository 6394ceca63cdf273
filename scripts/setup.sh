#!/usr/bin/env bash
# Finds what building Locus needs, installs by apt what is missing (naming it first), and finds the
# compiler and CUDA. Run it, or let the other scripts source it:
#   ./scripts/setup.sh [programs] [test] [train] [bench] [format] [lint]      what else it is for
set -euo pipefail

started_in=$PWD script=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '== %s\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
# value OPTION WHAT [VALUE]: prints VALUE; ends with a message where there is none.
value() {
  [[ -n ${3-} && $3 != --* ]] || fail "$1 takes $2"
  printf '%s' "$3"
}
# from_start PATH: a relative path that the user gives begins in the folder where the script was started.
from_start() { if [[ $1 == /* ]]; then printf '%s' "$1"; else printf '%s/%s' "$started_in" "$1"; fi; }
# The compiler that the user gives, if any.
[[ ${CXX-} != */* ]] || CXX=$(from_start "$CXX")
given_compiler=${CXX-}
# What a script's first lines say of it.
usage() { sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$script"; exit 0; }
need_git() {
  git rev-parse --is-inside-work-tree > /dev/null 2>&1 ||
    fail "asks git which files there are: install git, and run it in a clone"
}

# Every line: a command or header, and the package that brings it.
needs() {
  echo "cmake cmake"
  echo "ninja ninja-build"
  echo "/usr/include/eigen3/Eigen/Core libeigen3-dev"
  echo "/usr/include/zlib.h zlib1g-dev"
  echo "/usr/include/nlohmann/json.hpp nlohmann-json3-dev"
  needs_for "$@"
}
needs_for() {
  local purpose
  for purpose in "$@"; do
    case $purpose in
      programs) echo "/usr/include/CLI/CLI.hpp libcli11-dev"
                echo "/usr/include/fmt/core.h libfmt-dev"
                echo "mpicxx libopenmpi-dev"
                echo "mpirun openmpi-bin" ;;
      test) needs_for programs
            echo "/usr/include/gtest/gtest.h libgtest-dev"
            echo "/usr/include/gmock/gmock.h libgmock-dev" ;;
      train) needs_for programs
             echo "curl curl"
             echo "/etc/ssl/certs/ca-certificates.crt ca-certificates" ;;
      bench) echo "/usr/include/benchmark/benchmark.h libbenchmark-dev" ;;
      format) echo "clang-format clang-format" ;;
      lint) echo "clang++ clang" ;;
      *) fail "unknown purpose '$purpose': expected programs, test, train, bench, format or lint" ;;
    esac
  done
}

compiler_is_new_enough() {
  local major
  major=$("$1" -dumpversion 2>/dev/null | cut -d. -f1) || return 1
  if "$1" --version 2>/dev/null | grep -qi clang; then [ "$major" -ge 14 ]; else [ "$major" -ge 12 ]; fi
}

# Sets CXX to a compiler of C++20: $CXX if it is given, else the first of these.
find_compiler() {
  local candidate
  if [ -n "$given_compiler" ]; then
    command -v "$CXX" > /dev/null || fail "CXX=$CXX: there is no such command"
    compiler_is_new_enough "$CXX" || fail "CXX=$CXX: expected g++ 12, clang++ 14 or newer"
    return
  fi
  for candidate in g++ g++-14 g++-13 g++-12 clang++; do
    if command -v "$candidate" > /dev/null && compiler_is_new_enough "$candidate"; then
      export CXX=$candidate
      return 0
    fi
  done
  return 1
}

install_packages() {
  say "missing: $*; installing with apt"
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || fail "please install these packages as root: $*"
    sudo=sudo
  fi
  command -v apt-get > /dev/null || fail "there is no apt-get here: please install $*"
  local install=($sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
                 --no-install-recommends "$@")
  if ! "${install[@]}" > /dev/null 2>&1; then
    $sudo apt-get update -qq || fail "apt-get update failed, and these packages are missing: $*"
    "${install[@]}" > /dev/null || fail "apt-get could not install: $*"
  fi
}

setup() {
  needs "$@" > /dev/null  # ends here where a purpose is unknown
  local missing=() what package
  while read -r what package; do
    if [[ $what == /* ]]; then [ -e "$what" ] && continue; else command -v "$what" > /dev/null && continue; fi
    [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package")
  done < <(needs "$@")
  if ! find_compiler; then
    # The system's own g++, which cmake finds by itself, where it is new enough: Ubuntu 22.04's is 11.
    local own
    own=$(apt-cache show g++ 2> /dev/null | sed -n 's/^Version: [0-9]*:\([0-9]*\).*/\1/p' | sort -n | tail -1)
    if [ "${own:-0}" -ge 12 ]; then missing+=(g++); else missing+=(g++-12); fi
  fi
  [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
  find_compiler || fail "no C++20 compiler: g++ 12 or clang++ 14 is needed, or set CXX"

  NVCC=$(command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}"/bin/nvcc 2> /dev/null || true)
  # A compiler of templates takes 1.5 GB: no more of them than fit.
  local gigabytes
  gigabytes=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  JOBS=$(nproc)
  [ "$gigabytes" -ge "$JOBS" ] || JOBS=$((gigabytes > 1 ? gigabytes : 1))
  export JOBS NVCC
  say "compiler: $CXX $("$CXX" -dumpversion), $JOBS jobs"
  if [ -n "$NVCC" ]; then say "CUDA: $("$NVCC" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') ($NVCC)"
  else say "CUDA: no nvcc found, building without"; fi
  local gpus
  if gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null); then
    say "GPUs: $(sort <<< "$gpus" | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd, -)"
  else
    say "GPUs: none"
  fi
}

has_gpu() { nvidia-smi -L > /dev/null 2>&1; }

# The widest instruction set of LOCUS_ISAS that this processor runs (devices/host/cpu.cc asks the same).
processor_isa() {
  local flags flag isa=base
  [ "$(uname -m)" = x86_64 ] || { echo all; return; }
  flags=" $(sed -n '/^flags/ {s/.*: //p; q}' /proc/cpuinfo) "
  for flag in avx2 fma bmi1 bmi2 f16c movbe abm; do [[ $flags == *" $flag "* ]] || { echo $isa; return; }; done
  isa=v3
  for flag in avx512f avx512bw avx512cd avx512dq avx512vl; do
    [[ $flags == *" $flag "* ]] || { echo $isa; return; }
  done
  echo v4
}

# option FOLDER NAME: what a configured folder has for a CMake option.
option() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt"; }

# is_configured FOLDER: whether cmake can go on in it. A build folder of Locus is removed if its generator is
# not Ninja, if its clone was moved since, or if CXX is given and is not its compiler. A folder of another
# project or with sources is an error.
is_configured() {
  local folder=$1 home compiler why
  [ -f "$folder/CMakeCache.txt" ] || return 1
  home=$(option "$folder" CMAKE_HOME_DIRECTORY)
  compiler=$(option "$folder" CMAKE_CXX_COMPILER)
  if [ "$(option "$folder" CMAKE_GENERATOR)" != Ninja ]; then
    why="for $(option "$folder" CMAKE_GENERATOR), which is not Ninja"
  elif ! [ "$home" -ef . ]; then
    why="for $home, which is not this folder"
  elif [ -n "$given_compiler" ] && ! [ "$(command -v "$CXX")" -ef "$compiler" ]; then
    why="for $compiler, which is not CXX=$CXX"
  else
    return 0
  fi
  [ "$(option "$folder" CMAKE_PROJECT_NAME)" = locus ] && [ ! -e "$folder/CMakeLists.txt" ] ||
    fail "$folder was configured $why. It is not a build folder of Locus: choose another folder"
  say "$folder was configured $why: starting it anew"
  rm -rf "$folder"
  return 1
}

# configure FOLDER [cmake options]
configure() {
  local folder=$1 compiler
  shift
  is_configured "$folder" || true
  cmake -S . -B "$folder" -G Ninja "$@" > "/tmp/locus-configure.$$" 2>&1 || {
    cat "/tmp/locus-configure.$$" >&2
    rm -f "/tmp/locus-configure.$$"
    fail "cmake could not configure $folder"
  }
  grep "Locus:" "/tmp/locus-configure.$$" || true
  rm -f "/tmp/locus-configure.$$"
  compiler=$(option "$folder" CMAKE_CXX_COMPILER)
  [ "$(command -v "${CXX-}")" -ef "$compiler" ] || say "$folder keeps the compiler that it has: $compiler"
}

# build FOLDER TARGET...
build() {
  local folder=$1 target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  say "building $* in $folder"
  cmake --build "$folder" -j "$JOBS" "${targets[@]}"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  [[ " $* " != *" --help "* && " $* " != *" -h "* ]] || usage
  setup "$@"
fi
