#!/usr/bin/env bash
# The limits this project keeps, and whether it does; how many lines of code it has:
#   ./scripts/budget.sh [--fix] [--since COMMIT] [FOLDER]
#     FOLDER: of the build (default: build), for what only objects tell
#     --fix: the table of ops in ops/README.md is printed anew first
#     --since: what lines of code are compared with (default: the newest commit of main's own
#              history, its first parents, that this one has)
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
case ${1:-} in -h | --help) usage ;; esac
need_git
fix=no since=""
while [ $# -gt 0 ]; do
  case $1 in
    --fix) fix=yes ;;
    --since) since=$(git rev-parse --verify "${2:?--since takes a commit}^{commit}"); shift ;;
    -*) fail "unknown option '$1': expected --fix or --since COMMIT" ;;
    *) break ;;
  esac
  shift
done
folder=build
[ $# = 0 ] || folder=$(from_start "$1")
MAX_LINES=400 MAX_KERNELS=200
parts=(core devices ops nn)
broken=0
breach() { printf 'over budget: %s\n' "$*"; broken=$((broken + 1)); }
sources() { git ls-files --cached --others --exclude-standard -- "$@" | grep -v '^\.' || true; }

# Files a person can read in one sitting.
while read -r file; do
  [ -f "$file" ] || continue
  lines=$(wc -l < "$file")
  [ "$lines" -le $MAX_LINES ] || breach "$file has $lines lines; the limit is $MAX_LINES"
done < <(sources '*.h' '*.cc' '*.cu' '*.sh' '*.cmake' CMakeLists.txt)

# Lines of code, neither blank nor comment, of each family in the working tree, and their growth since
# $since. A family is a folder of ops with the public headers that it implements, a folder of examples
# or tests, or a part. Nothing limits them.
# code_lines FOLDER: "FAMILY LINES" for the files in it whose names come in.
code_lines() {
  (cd "$1" && xargs -r awk '
    function family(f, parts, n) {
      n = split(f, parts, "/")
      sub(/\.[a-z]+$/, "", parts[n])
      if (n == 2 && parts[1] == "ops" && parts[2] in home) return "ops/" home[parts[2]]
      return n > 2 && parts[1] ~ /^(ops|examples|tests)$/ ? parts[1] "/" parts[2] : parts[1]
    }
    BEGIN {
      for (i = 1; i < ARGC; ++i)
        if (split(ARGV[i], parts, "/") > 2 && parts[1] == "ops" && sub(/\.[a-z]+$/, "", parts[3]) &&
            (parts[3] == parts[2] || !(parts[3] in home)))
          home[parts[3]] = parts[2]
    }
    FNR == 1 {name = family(FILENAME)}
    !/^[[:space:]]*($|\/\/)/ {++lines[name]}
    END {for (name in lines) print name, lines[name]}')
}
counted=(core devices ops nn examples tests)
base=${since:-$(comm -12 <(git rev-list --first-parent main 2> /dev/null | sort) \
  <(git rev-list HEAD | sort) | git rev-list --no-walk --stdin 2> /dev/null | head -1 || true)}
before=$(mktemp -d)
if [ -n "$base" ]; then
  git archive "$base" -- $(git ls-tree --name-only "$base" -- "${counted[@]}") | tar -x -C "$before"
  (cd "$before" && find . -name '*.h' -o -name '*.cc' -o -name '*.cu') | sed 's/^..//' |
    code_lines "$before" > "$before/lines"
  printf '%-36s %6s %7s\n' "lines of code" now "since $(git rev-parse --short "$base")"
else
  say "no branch main: growth not shown (--since COMMIT)"
  : > "$before/lines"
fi
for folder_of in "${counted[@]}"; do
  sources "$folder_of/*.h" "$folder_of/*.cc" "$folder_of/*.cu" | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
  done
done | code_lines . | sort | awk -v known="$base" '
  function row(name, lines, old) {
    printf "%-36s %6d%s\n", name, lines, known ? sprintf(" %+7d", lines - old) : ""
  }
  FILENAME != "-" {old[$1] = $2; next}
  {now[$1] = $2; names[++n] = $1}
  END {
    for (name in old) if (!(name in now)) names[++n] = name
    for (i = 1; i <= n; ++i) {
      name = names[i]
      row(name, now[name], old[name])
      part = name
      sub(/\/.*/, "", part)
      if (part ~ /^(core|devices|ops|nn)$/) {all += now[name]; all_old += old[name]}
    }
    row("core, devices, ops and nn", all, all_old)
  }' "$before/lines" -
rm -r "$before"

# arrows ROOM: "A B" for each B that A includes. A file counts by its stem; in ops a family counts as
# one: its folder, and the public headers that the folder implements.
arrows() {
  local part=$1
  sources "$part/*.h" "$part/*.cc" "$part/*.cu" | xargs awk -v part="$part" '
    function stem(f) { sub(/\.[a-z]+$/, "", f); sub(/^[a-z]+\//, "", f); return f }
    function node(f, s, parts) {
      s = stem(f)
      if (part != "ops") {sub(/^.*\//, "", s); return s}
      if (split(s, parts, "/") > 1) return parts[1]
      return s in home ? home[s] : s
    }
    BEGIN {
      for (i = 1; i < ARGC; ++i)
        if (split(stem(ARGV[i]), parts, "/") > 1) home[parts[2]] = parts[1]
    }
    $0 ~ "^#include <locus/" part "/" {
      target = $2
      gsub(/^<locus\/|>$/, "", target)
      if (node(FILENAME) != node(target)) print node(FILENAME), node(target)
    }' | sort -u
}
for part in "${parts[@]}"; do
  while read -r loop; do
    [ -z "$loop" ] || breach "$part has an include loop: $loop"
  done < <(arrows "$part" | tsort 2>&1 > /dev/null |
    awk '/loop/ {if (text) print text; text = ""; next} {text = text (text ? " <- " : "") $2}
         END {print text}')
done

# Public headers on top, their internals in folders.
most_on_top=40 most_in_folder=30
for part in core devices nn tests; do
  n=$(sources "$part/*.h" | grep -c "^$part/[^/]*$" || true)
  [ "$n" -le $most_on_top ] || breach "$part has $n headers on top; at most $most_on_top"
  hits=$(sources "$part/*.cc" "$part/*.cu" | grep "^$part/[^/]*$" || true)
  [ -z "$hits" ] || breach "$part has sources on top; each belongs into a folder:"$'\n'"$hits"
  while read -r n inner; do
    [ -z "$inner" ] || [ "$n" -le $most_in_folder ] || breach "$inner has $n files; at most $most_in_folder"
  done < <(sources "$part/*/*" | xargs -r -n 1 dirname | sort | uniq -c)
done

# Answers about headers name tests that fail if an answer is false.
hits=$(comm -23 \
  <(awk -F '|' 'NF > 4 {print $(NF - 1)}' tests/QUESTIONS.md | grep -oE '`[^`]+`' | tr -d '`' | sort -u) \
  <(sources 'tests/*/*' | xargs cat | tr -d ' \n' | grep -aoE 'TEST(_F|_P)?\(\w+,\w+\)' |
    sed -E 's/.*\((.*),(.*)\)/\1.\2/' | sort -u))
[ -z "$hits" ] || breach "tests/QUESTIONS.md names tests that do not exist:"$'\n'"$hits"

# Public headers say what, not how; those of forms bring the loops into a program.
hits=$(sources 'ops/*.h' 'nn/*.h' 'core/*.h' | grep -vE '^ops/(.*/|forms(_cpu|_cuda)?\.h$)' |
  xargs grep -nE '#include [<"]([^>"]*_kernel\.h|locus/ops/[a-z_]+/|[^>"]*(cuda|cublas|cudnn|cudart|curand|nccl))' || true)
[ -z "$hits" ] || breach "public headers that name kernels or vendors:"$'\n'"$hits"

# Public headers are read, not studied. A comment is all text up to the next declaration; indented code
# and lists are not counted.
while read -r hit; do
  [ -z "$hit" ] || breach "$hit"
done < <(sources 'core/*.h' 'devices/*.h' 'ops/*.h' 'nn/*.h' | grep -E '^[a-z]+/[^/]*$' | xargs awk -v most=120 '
    function flush(  parts, k, n, m) {
      if (block == "") return
      n = split(block, parts, " ")
      if (n > most) print name ": a comment of " n " words; at most " most
      n = split(block, parts, /\. +/)
      for (k = 1; k <= n; ++k) {
        m = split(parts[k], ignored, " ")
        if (m > 1) {all += m; if (m > 30) long += m}
      }
      block = ""
    }
    FNR == 1 {flush(); name = FILENAME}
    /^[[:space:]]*\/\// {
      text = $0
      sub(/^[[:space:]]*\/+ ?/, "", text)
      if (text !~ /^(  | ?[-*] )/) block = block " " text
      next
    }
    /^[[:space:]]*(#|$)/ {next}
    {
      flush()
      if (at = index($0, " // ")) block = substr($0, at + 4)
    }
    END {
      flush()
      if (long > all / 10) print int(100 * long / all) " % of the words of public headers are in sentences of over 30 words; at most 10 %"
    }')

# Rooms include only rightwards: nn, ops, devices, core.
check_includes() {
  local part=$1 forbidden=$2 hits
  hits=$(sources "$part/" | xargs -r grep -nE "#include <locus/($forbidden)/" 2> /dev/null || true)
  [ -z "$hits" ] || breach "$part includes a part above it:"$'\n'"$hits"
}
check_includes core 'devices|ops|nn'
check_includes devices 'ops|nn'
check_includes ops 'nn'
hits=$(sources 'ops/*/*.cu' | xargs -r grep -ln '#include <Eigen' || true)
[ -z "$hits" ] || breach "CUDA files include Eigen: $hits"
if [ -f "$folder/CMakeCache.txt" ]; then
  headers=$("$(option "$folder" CMAKE_CXX_COMPILER)" -std=c++20 -M -I "$folder/include" -x c++ nn/locus.h) ||
    fail "the compiler of $folder cannot read nn/locus.h"
  hits=$(grep -oE '[^ ]*(Eigen|cuda|cublas)[^ ]*' <<< "$headers" | grep -vE '/locus/' | head -3 || true)
  [ -z "$hits" ] || breach "locus.h brings Eigen or CUDA:"$'\n'"$hits"
else
  say "no build in $folder: headers of locus.h not checked"
fi

# Builds with and without CUDA share the objects of all other files, and LocusSetup.cmake defines
# LOCUS_WITH_* for these alone.
hits=$(sources 'core/*' 'devices/*' 'ops/*' 'nn/*' 'examples/*.cc' 'examples/*.h' 'tests/*.h' |
  xargs grep -l 'LOCUS_WITH_' |
  grep -vE '^(devices/(cuda|nccl|nvrtc)/.*|devices/ranks/(nccl|mpi)[a-z_]*\.cc|tests/(devices/cuda_support|support/slow|bench/bench)\.h)$' || true)
[ -z "$hits" ] || breach "files that read LOCUS_WITH_*, which is not defined for them:"$'\n'"$hits"

hits=$(sources '*.h' '*.cc' | xargs grep -l 'LOCUS_ALL_ISAS' | grep -v '^tests/ops/matmul_test\.cc$' || true)
[ -z "$hits" ] || breach "files that read LOCUS_ALL_ISAS, which LocusTests.cmake defines for matmul_test.cc alone: $hits"

# Headers leave seven macros behind, no more.
macros="LOCUS_CHECK LOCUS_CUDA LOCUS_HD LOCUS_LAMBDA LOCUS_THREAD_SAFETY LOCUS_GUARDED_BY LOCUS_REQUIRES"
hits=$(while read -r file; do
  grep -oE '^ *# *define +\w+' "$file" | awk '{print $NF}' | sort -u | while read -r macro; do
    [[ " $macros " == *" $macro "* ]] ||
      grep -q "# *undef $macro" "$file" || echo "$file: $macro"
  done || true
done < <(sources 'core/*.h' 'devices/*.h' 'ops/*.h' 'nn/*.h'))
[ -z "$hits" ] || breach "macros beyond $macros:"$'\n'"$hits"

# What the pages tell people to run is there, and so are the options they name. Their links are tested
# (tests/pages/pages.awk).
mapfile -t pages < <(sources '*.md')
while read -r script; do
  [ -x "$script" ] || breach "a page names $script, which cannot be run"
done < <(grep -ohE '\./scripts/[a-z_]+\.sh' "${pages[@]}" | sort -u)
while read -r option; do
  grep -rqs "$option" CMakeLists.txt scripts/cmake core devices ops tests/support ||
    breach "a page names $option, which nothing reads"
done < <(grep -ohE '\bLOCUS_[A-Z_0-9]+\b' "${pages[@]}" | sort -u)
while read -r option; do
  grep -q "$option" scripts/OPTIONS.md || breach "scripts/OPTIONS.md does not name $option, which programs read"
done < <(sources 'core/*.cc' 'devices/*.cc' 'ops/*.cc' 'nn/*.cc' | xargs grep -hoE '"LOCUS_[A-Z0-9_]+"' | tr -d '"' | sort -u)

# The table of ops is the registry's.
if [ -x "$folder/list_ops" ]; then
  if [ $fix = yes ]; then
    table=$(mktemp)
    "$folder/list_ops" --markdown | sed '/^$/,$d' > "$table"
    sed -i -e "/^<!-- list_ops -->\$/r $table" -e '/^<!-- list_ops -->$/,/^$/ {/^|/d}' ops/README.md
    rm "$table"
  fi
  marked=$(sed -n '/^<!-- list_ops -->$/,/^$/ {/^|/p}' ops/README.md)
  hits=$(diff <(echo "$marked") <("$folder/list_ops" --markdown | sed '/^$/,$d') || true)
  [ -z "$hits" ] || breach "the table of ops in ops/README.md is not what $folder/list_ops prints:"$'\n'"$hits"
else
  say "no list_ops in $folder: the table of ops not checked"
fi

# What train.sh builds without a GPU is a part of what test.sh builds: the same commands.
# commands FOLDER TARGET: those that compile a source, but for the one that names what a build has.
commands() {
  ninja -C "$1" -t commands "$2" | grep -F ' -c ' | grep -v '/families\.cc$' | sed "s|$(realpath "$1")/|BUILD/|g" | sort
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -f $folder/build.ninja && $(option "$folder" LOCUS_ISAS) =~ ^(v3|v4|v3;v4)$ ]]; then
  say "$folder has kernels for chosen instruction sets only: not compared with train.sh's build"
elif [ -f "$folder/build.ninja" ] && [ -z "$(option "$folder" LOCUS_SANITIZE)" ]; then
  configure "$work/part" -DCMAKE_CXX_COMPILER="$(option "$folder" CMAKE_CXX_COMPILER)" -DLOCUS_TESTS=OFF \
    -DLOCUS_EXAMPLES=ON -DLOCUS_CUDA=OFF -DLOCUS_ISAS=base > /dev/null
  commands "$work/part" train_mlp > "$work/some" || fail "ninja names no commands of train_mlp"
  commands "$folder" all > "$work/all" || fail "ninja names no commands of $folder"
  hits=$(comm -23 "$work/some" "$work/all" | awk '{print $NF}')
  [ -z "$hits" ] || breach "train.sh and test.sh compile these files differently:"$'\n'"$hits"
else
  say "no build in $folder: commands of train.sh and test.sh not compared"
fi

# No core object needs a symbol of ops, devices or nn.
objects=$folder/CMakeFiles/locus.dir
built=$(find "$objects/core" -name '*.o' 2> /dev/null || true)
if [ -n "$built" ]; then
  find "$objects/core" -name '*.o' -print0 | xargs -0 nm -u | awk 'NF == 2 {print $2}' | sort -u > "$work/needed"
  find "$objects/core" -name '*.o' -print0 | xargs -0 nm --defined-only | awk 'NF == 3 {print $3}' | sort -u > "$work/core"
  find "$objects" -name '*.o' -not -path "$objects/core/*" -print0 | xargs -0 nm --defined-only |
    awk 'NF == 3 && $2 ~ /^[TDBR]$/ {print $3}' | sort -u > "$work/others"
  hits=$(comm -23 "$work/needed" "$work/core" | comm -12 - "$work/others" | c++filt)
  [ -z "$hits" ] || breach "core needs symbols of other parts of Locus:"$'\n'"$hits"
else
  say "no objects in $folder: symbols not checked"
fi

# A weak function of a CPU kernel is named after its instruction set: the linker would take any other
# from whichever copy comes first, and an older processor crash in it.
for isa in base v3 v4; do
  kernels=$folder/CMakeFiles/locus_kernels_$isa.dir
  [ -n "$built" ] && [ -d "$folder/CMakeFiles/locus_kernels_v4.dir" ] && [ -d "$kernels" ] || continue
  find "$kernels" -name '*.o' -print0 | xargs -0 nm --defined-only | awk '$2 == "W" {print $3}' | sort -u > "$work/weak"
  hits=$(grep -vE "[0-9](Eigen_)?$isa" "$work/weak" | c++filt || true)
  [ -z "$hits" ] || breach "kernels for $isa share functions with others:"$'\n'"$hits"
done

# Kernels of each CUDA file: the host code registers them by name, and those strings are counted.
if compgen -G "$objects/ops/*/*.cu.o" > /dev/null; then
  all_kernels=0
  for object in "$objects"/ops/*/*.cu.o; do
    name=${object#"$objects/"}
    name=${name%.o}
    kernels=$(readelf -p .rodata.str1.8 -p .rodata.str1.1 "$object" 2> /dev/null |
      grep -cE '\] +_Z' || true)
    printf '%-36s %4d kernels\n' "$name" "$kernels"
    all_kernels=$((all_kernels + kernels))
    [ "$kernels" -le $MAX_KERNELS ] || breach "$name has $kernels kernels; the limit is $MAX_KERNELS"
  done
  printf '%-36s %4d kernels\n' "all CUDA files" $all_kernels
else
  say "no CUDA objects in $folder: kernels not counted"
fi

# What one looks at when a build takes long. No limit: the seconds are the machine's.
if [ -f "$folder/.ninja_log" ]; then
  echo "the files that took longest to compile, in seconds on the clock"
  awk 'NF >= 4 && /\.o\t/ {seconds[$4] = ($2 - $1) / 1000}
       END {for (o in seconds) printf "%6.1f  %s\n", seconds[o], o}' "$folder/.ninja_log" |
    sed 's|CMakeFiles/[^/]*\.dir/||; s|\.o$||' | sort -rn | awk 'NR <= 15'
fi

if [ $broken != 0 ]; then fail "$broken limits broken"; fi
say "within budget"
