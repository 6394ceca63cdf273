#!/usr/bin/env bash
# The limits this project keeps, and whether it does:
#   ./scripts/budget.sh [BUILD_FOLDER]      the folder (default: build) for what only objects tell
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
folder=${1:-build}
MAX_LINES=400 MAX_KERNELS=200 MAX_SECONDS=20
broken=0
breach() { printf 'over budget: %s\n' "$*"; broken=$((broken + 1)); }
sources() { git ls-files --cached --others --exclude-standard -- "$@" | grep -v '^\.' || true; }

# Files a person can read in one sitting.
while read -r file; do
  [ -f "$file" ] || continue
  lines=$(wc -l < "$file")
  [ "$lines" -le $MAX_LINES ] || breach "$file has $lines lines; the limit is $MAX_LINES"
done < <(sources '*.h' '*.cc' '*.cu' '*.sh' '*.cmake' CMakeLists.txt)

# Rooms include only rightwards: nn, ops, devices, core.
check_includes() {
  local room=$1 forbidden=$2 hits
  hits=$(sources "$room/" | xargs -r grep -nE "#include <locus/($forbidden)/" 2> /dev/null || true)
  [ -z "$hits" ] || breach "$room includes a room to its left:"$'\n'"$hits"
}
check_includes core 'devices|ops|nn'
check_includes devices 'ops|nn'
check_includes ops 'nn'
hits=$(sources 'ops/*/*.cu' | xargs -r grep -ln '#include <Eigen' || true)
[ -z "$hits" ] || breach "CUDA files include Eigen: $hits"
if [ -d "$folder/include/locus" ]; then
  hits=$("${CXX:-c++}" -std=c++20 -M -I "$folder/include" -x c++ nn/locus.h |
    grep -oE '[^ ]*(Eigen|cuda|cublas)[^ ]*' | grep -vE '/locus/' | head -3 || true)
  [ -z "$hits" ] || breach "locus.h brings Eigen or CUDA:"$'\n'"$hits"
fi

# Headers leave three macros behind, no more.
hits=$(while read -r file; do
  grep -oE '^ *# *define +\w+' "$file" | awk '{print $NF}' | sort -u | while read -r macro; do
    [[ $macro == LOCUS_CHECK || $macro == LOCUS_CUDA || $macro == LOCUS_HD ]] ||
      grep -q "# *undef $macro" "$file" || echo "$file: $macro"
  done || true
done < <(sources 'core/*.h' 'devices/*.h' 'ops/*.h' 'nn/*.h'))
[ -z "$hits" ] || breach "macros beyond LOCUS_CHECK, LOCUS_CUDA and LOCUS_HD:"$'\n'"$hits"

# What the README tells people to run is there, and so are the options it names.
while read -r script; do
  [ -x "$script" ] || breach "README.md names $script, which cannot be run"
done < <(grep -oE '\./scripts/[a-z_]+\.sh' README.md | sort -u)
while read -r option; do
  grep -rqs "$option" CMakeLists.txt scripts/cmake core devices ||
    breach "README.md names $option, which nothing reads"
done < <(grep -oE '\bLOCUS_[A-Z_]+\b' README.md | sort -u)
while read -r option; do
  grep -q "$option" README.md || breach "README.md does not name $option, which programs read"
done < <(sources 'core/*.cc' 'devices/*.cc' 'ops/*.cc' 'nn/*.cc' | xargs grep -hoE '"LOCUS_[A-Z0-9_]+"' | tr -d '"' | sort -u)
while read -r file; do
  [ -e "$file" ] || breach "README.md links to $file, which is not there"
done < <(grep -oE '\]\([^)#:]+\)' README.md | sed 's/^](//; s/)$//' | sort -u)

# No core object needs a symbol of ops, devices or nn.
objects=$folder/CMakeFiles/locus.dir
if compgen -G "$objects/core/*.o" > /dev/null; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  nm -u "$objects"/core/*.o | awk 'NF == 2 {print $2}' | sort -u > "$work/needed"
  nm --defined-only "$objects"/core/*.o | awk 'NF == 3 {print $3}' | sort -u > "$work/core"
  find "$objects" -name '*.o' -not -path '*/core/*' -print0 | xargs -0 nm --defined-only |
    awk 'NF == 3 && $2 ~ /^[TDBR]$/ {print $3}' | sort -u > "$work/others"
  hits=$(comm -23 "$work/needed" "$work/core" | comm -12 - "$work/others" | c++filt)
  [ -z "$hits" ] || breach "core needs symbols of other rooms:"$'\n'"$hits"
else
  say "no objects in $folder: symbols not checked"
fi

over() { awk -v s="$1" -v m=$MAX_SECONDS 'BEGIN {exit !(s > m)}'; }

# Ninja's log has the time on the clock, which counts what else the machine did: a file that looks
# slow there is compiled again, alone, and its processor time taken; that grows by a third beside
# other work, so the quickest of three counts.
cpu_seconds() {
  local command TIMEFORMAT=%U
  command=$(ninja -C "$folder" -t commands "$1" | tail -1)
  (cd "$folder" && export CCACHE_DISABLE=1 && { time sh -c "$command" > /dev/null 2>&1; } 2>&1)
}

# Kernels and seconds of each CUDA file. The host code registers kernels by name: those strings are
# counted.
if compgen -G "$objects/ops/*/*.cu.o" > /dev/null; then
  for object in "$objects"/ops/*/*.cu.o; do
    name=${object#"$objects/"}
    name=${name%.o}
    kernels=$(readelf -p .rodata.str1.8 -p .rodata.str1.1 "$object" 2> /dev/null |
      grep -cE '\] +_Z' || true)
    seconds=$(awk -v o="CMakeFiles/locus.dir/$name.o" '$4 == o {s = ($2 - $1) / 1000} END {printf "%.1f", s}' \
      "$folder/.ninja_log")
    printf '%-36s %4d kernels %6s s\n' "$name" "$kernels" "$seconds"
    [ "$kernels" -le $MAX_KERNELS ] || breach "$name has $kernels kernels; the limit is $MAX_KERNELS"
    over "$seconds" || continue
    for _ in 1 2 3; do
      seconds=$(cpu_seconds "CMakeFiles/locus.dir/$name.o")
      over "$seconds" || break
    done
    ! over "$seconds" || breach "$name takes $seconds s to compile; the limit is $MAX_SECONDS"
  done
else
  say "no CUDA objects in $folder: kernels not counted"
fi

if [ $broken != 0 ]; then fail "$broken limits broken"; fi
say "within budget"
