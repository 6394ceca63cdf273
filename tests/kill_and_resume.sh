#!/usr/bin/env bash
# Checks that a training program that is killed and resumed ends with the same bits.
#   tests/kill_and_resume.sh KILLS PROGRAM [options]
# Runs PROGRAM once, then repeatedly with --resume and KILLS kills at random times. Compares
# parameters and history.csv without its times. Every third kill is SIGTERM, the others SIGKILL.
set -euo pipefail
kills=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

started=$(date +%s%N)
"$@" --out "$folder/whole" --save "$folder/whole.params" > "$folder/log"
lasted=$((($(date +%s%N) - started) / 1000000)) # ms

resumed=("$@" --out "$folder/killed" --save "$folder/killed.params" --checkpoint "$folder/run"
         --checkpoint-every 7 --resume)
died=0 ended=no
for ((i = 0; i < kills && died < kills; ++i)); do
  "${resumed[@]}" > "$folder/log" 2>&1 &
  pid=$!
  wait_ms=$((50 + RANDOM % (lasted / 3 + 1)))
  sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
  signal=KILL
  [ $((i % 3)) -ne 2 ] || signal=TERM
  if kill -$signal $pid 2> /dev/null; then died=$((died + 1)); fi
  status=0
  wait $pid 2> /dev/null || status=$?
  case $status in
    0) ended=yes ;;
    137 | 143) ;;
    *) cat "$folder/log"; echo "ended with $status"; exit 1 ;;
  esac
done
"${resumed[@]}" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }

cmp "$folder/whole.params" "$folder/killed.params"
untimed() { cut -d, -f1-6 "$1/history.csv"; }
diff <(untimed "$folder/whole") <(untimed "$folder/killed")
echo "killed $died times (finished early: $ended): parameters and history are equal"
