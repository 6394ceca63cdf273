#!/usr/bin/env bash
# Builds train_mlp and trains a small network on handwritten digits: on gpu(0) when there is one,
# else on cpu(0).
#   ./scripts/train.sh [--data DIR] [--context "gpu(0)"] [--epochs 5] ...
# Digits: --data, else data/mnist, else downloaded to there, else drawn by the program itself. The
# options are train_mlp's; --help lists them. Without --out and --save, results are in out/. The folders
# data/mnist and out are the clone's. Relative paths in options begin in the folder where the script is
# started.
# A new build folder gets what this machine needs: no tests, CPU kernels for this processor's instruction
# set alone, and CUDA if there is a GPU. A folder that test.sh configured keeps all that it has.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

CHECKSUMS="7ff28fd295f802eefc6d40e461175dfe4b969b1842b2abc8c6dc8c20711cf79f train-images-idx3-ubyte
81a978ae83d39ffdba0db3ce2fcaf80a8921e9629e874428996a2b03242d4b2a train-labels-idx1-ubyte
197e111ae341b0770be9011ac5e622d0e6cd1c640b32eb0de5dc1dd26cc6e182 t10k-images-idx3-ubyte
b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b t10k-labels-idx1-ubyte"
MIRRORS="https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist"

has_mnist() {
  local sum name
  while read -r sum name; do
    [ -f "data/mnist/$name.gz" ] || [ -f "data/mnist/$name" ] || return 1
  done <<< "$CHECKSUMS"
}

matches() { [ "$(sha256sum < "$2" | cut -d' ' -f1)" = "$1" ]; }

# fetch SHA256 NAME: a file has its name only when it is whole and right; an interrupted download
# is continued the next time.
fetch() {
  local file=data/mnist/$2.gz mirror status problem
  [ -f "$file" ] && return 0
  for mirror in $MIRRORS; do
    local get=(curl -fsSL --connect-timeout 5 --speed-limit 1000 --speed-time 15
               -o "$file.part" "$mirror/$2.gz")
    status=0
    problem=$("${get[@]}" -C - 2>&1) || status=$?
    # 33, 416's 22: the server cannot continue what is there.
    if [ -f "$file.part" ] && { [ $status = 33 ] || [ $status = 22 ]; }; then
      if matches "$1" "$file.part"; then
        status=0
      else
        status=0
        problem=$("${get[@]}" 2>&1) || status=$?
      fi
    fi
    if [ $status != 0 ]; then
      say "$mirror/$2.gz: $problem"
      continue
    fi
    if matches "$1" "$file.part"; then
      mv "$file.part" "$file"
      return 0
    fi
    say "$mirror/$2.gz is not the expected file: its SHA-256 is another"
    rm -f "$file.part"
  done
  return 1
}

download() {
  say "downloading MNIST (11 MB) to data/mnist"
  mkdir -p data/mnist
  local sum name
  while read -r sum name; do
    fetch "$sum" "$name" || {
      say "could not download $name.gz"
      rmdir --ignore-fail-on-non-empty data/mnist data
      return 1
    }
  done <<< "$CHECKSUMS"
}

# This script's help, then train_mlp's: what it prints itself if it is built, else its options' names.
help() {
  (usage)
  echo
  if [ -x build/train_mlp ] && build/train_mlp --help; then return; fi
  local names
  names=$(grep -ohE '"--[a-z-]+", o\.' examples/training/options.cc examples/train_mlp.cc | cut -d'"' -f2 |
          awk '!seen[$0]++')
  echo "Options of train_mlp. --help describes them once it is built:"
  printf '%s ' $names | fold -s -w 98 | sed 's/^/  /; s/ *$//'
  echo
}

own_data=no own_out=no own_save=no
for argument in "$@"; do
  case $argument in
    --data | --data=*) own_data=yes ;;
    --out | --out=*) own_out=yes ;;
    --save | --save=*) own_save=yes ;;
    --help | -h) help; exit 0 ;;
  esac
done

setup train
# A new build has what train_mlp needs on this machine: a part of what test.sh builds, with the same
# commands. A build that has more keeps it.
parts=()
is_configured build || parts=(-DLOCUS_TESTS=OFF -DLOCUS_CUDA=OFF "-DLOCUS_ISAS=$(processor_isa)")
if has_gpu; then parts+=(-DLOCUS_CUDA=AUTO); fi
configure build -DLOCUS_EXAMPLES=ON "${parts[@]}"
left_out=""
if [ -n "$NVCC" ] && [ "$(option build LOCUS_CUDA)" = OFF ]; then left_out=", without CUDA"; fi
isas=$(option build LOCUS_ISAS)
if [ "$isas" != all ]; then left_out+=", for processors with $isas"; fi
if [ -n "$left_out" ]; then
  say "train_mlp is built for this machine$left_out. All of Locus: ./scripts/test.sh;"
  say "without tests: cmake -B build -DLOCUS_CUDA=AUTO -DLOCUS_ISAS=all && cmake --build build"
fi
build build train_mlp

clone=$PWD options=()
if [ $own_data = yes ]; then
  say "digits: those of --data"
elif has_mnist; then
  say "digits: MNIST, found in data/mnist"
  options+=(--data "$clone/data/mnist")
elif download; then
  say "digits: MNIST, downloaded to data/mnist"
  options+=(--data "$clone/data/mnist")
else
  say "digits: drawn by the program itself, as MNIST is not here and could not be downloaded"
fi
[ $own_out = yes ] || options+=(--out "$clone/out")
if [ $own_save = no ]; then
  mkdir -p out
  options+=(--save "$clone/out/mlp.params")
fi
cd "$started_in"
exec "$clone/build/train_mlp" "${options[@]}" "$@"
