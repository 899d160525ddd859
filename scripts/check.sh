#!/usr/bin/env bash
# The gate of a change: format, scripts, prose, manual pages, what documents and comments name, both compilers,
# each file by itself, clang-tidy, unit tests, then ASan+UBSan and TSan runs.
# Usage: scripts/check.sh [--quick] [--fix] [STEP ...]
#   --quick  only files that differ from origin/main (or HEAD~1) in format, scripts, alone, tidy; no builds and no tests
#   --fix    let clang-format rewrite the files
#   STEP     any of: format scripts prose manual requirements includes docs gcc clang alone tidy asan tsan
#           (default: all, in that order)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

quick=no fix=no
steps=()
for arg in "$@"; do
  case $arg in
    --quick) quick=yes ;;
    --fix) fix=yes ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    format|scripts|prose|manual|requirements|includes|docs|gcc|clang|alone|tidy|asan|tsan) steps+=("$arg") ;;
    *) printf 'check.sh: unknown argument %s (see --help)\n' "$arg" >&2; exit 2 ;;
  esac
done
if ((${#steps[@]} == 0)); then
  steps=(format scripts prose manual requirements includes docs gcc clang alone tidy asan tsan)
  [[ $quick == yes ]] && steps=(format scripts prose manual requirements includes docs alone tidy)
fi

# The tracked and new files that match the patterns; with --quick only those that changed.
files() {
  local base
  if [[ $quick == yes ]]; then
    base=$(git rev-parse -q --verify origin/main || git rev-parse -q --verify HEAD~1) || base=HEAD
    { git diff --name-only --diff-filter=d "$base" -- "$@"; git ls-files -o --exclude-standard -- "$@"; } | sort -u
  else
    git ls-files -co --exclude-standard -- "$@"
  fi
}
need() { command -v "$1" >/dev/null || { echo "check.sh: $1 is missing: scripts/install-packages check"; return 1; }; }

check_format() {
  need clang-format || return 1
  local mode=(--dry-run --Werror)
  [[ $fix == yes ]] && mode=(-i)
  files '*.cc' '*.h' | xargs -r clang-format "${mode[@]}"
}
check_scripts() {
  need shellcheck || return 1
  local shell=() python=() path
  while read -r path; do
    [[ -f $path ]] || continue
    case $path:$(head -n 1 "$path") in
      *:'#!'*bash*) shell+=("$path") ;;
      *.py:*|*:'#!'*python3*) python+=("$path") ;;
    esac
  done < <(files scripts .ci tests debian share)
  ((${#shell[@]} == 0)) || shellcheck -x "${shell[@]}" || return 1
  python3 -c 'import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]' "${python[@]}"
}
check_prose() { ./scripts/prose --self-test >/dev/null && ./scripts/prose --depth 3 --max 0.5 >/dev/null; }
check_manual() {
  need groff || return 1
  local page out bad=0
  for page in man/*.[1-8]; do
    out=$(groff -t -man -Tutf8 -ww -z "$page" 2>&1)
    [[ -z $out ]] || { echo "$out"; bad=1; }
  done
  ./scripts/check-options || bad=1
  return $bad
}
check_requirements() { ./scripts/requirements >/dev/null; }
check_includes() { ./scripts/includes --self-test && ./scripts/includes; }
check_docs() { ./scripts/check-docs; }
check_gcc() { ./scripts/build --preset gcc && run_unit build-gcc; }
check_clang() { ./scripts/build --preset clang && run_unit build-clang; }
check_asan() {
  export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
  ./scripts/build --preset asan && run_unit build-asan
}
check_tsan() {
  export TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp
  ./scripts/build --preset tsan && run_unit build-tsan
}
run_unit() {
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ctest --test-dir "$1" --output-on-failure -j "$(nproc)" |
    tail -n 40
}
# Runs a script on all source files; with --quick only on those that changed.
over_sources() {
  [[ $quick == yes ]] || { "$1"; return; }
  local changed
  mapfile -t changed < <(files '*.cc')
  ((${#changed[@]} == 0)) || "$1" "${changed[@]}"
}
check_alone() { need clang++ && over_sources ./scripts/alone; }
check_tidy() { need clang-tidy && over_sources ./scripts/tidy; }

failed=()
for step in "${steps[@]}"; do
  start=$SECONDS
  if "check_$step"; then result=ok; else result=FAILED; failed+=("$step"); fi
  printf -- '-- %-13s %-6s %4d s\n' "$step" "$result" $((SECONDS - start))
done
if ((${#failed[@]})); then
  printf 'check.sh: failed: %s\n' "${failed[*]}"
  exit 1
fi
echo "check.sh: all steps passed"
