#!/usr/bin/env bash
# Checks the formatting of every C++ and CUDA file (clang-format 14), or mends it:
#   ./scripts/format.sh [--fix]
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
mode=(--dry-run -Werror)
case ${1:---check} in
  --check) ;;
  --fix) mode=(-i) ;;
  -h | --help) usage ;;
  *) fail "unknown option '$1': expected --check or --fix" ;;
esac
need_git
format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$format" ]; then
  install_packages clang-format
  format=clang-format
fi
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc' '*.cu' | grep -v '^\.')
"$format" "${mode[@]}" "${files[@]}"
say "${#files[@]} files: formatted"
