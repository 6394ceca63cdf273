#!/usr/bin/env bash
# Compares placement's predictions with measurements, for the models and batches of RESULTS.md.
#
#   tests/bench/plans.sh [BUILD] [CONTEXTS]     build, "gpu(0),gpu(1)"
set -euo pipefail
build=${1:-build}
contexts=${2:-gpu(0),gpu(1)}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for model in "mlp 256" "mlp 1024" "mlp 4096" "lenet 256" "lenet 1024" "resnet 256"; do
  read -r name batch <<< "$model"
  echo "-- $name, $batch samples"
  "$build/placement" --model "$name" --batch-size "$batch" --contexts "$contexts" --out "$out" |
    grep -E "^(kind|one|data|pipeline|tensor|mixed|Best plan|The prediction|Error)"
done
