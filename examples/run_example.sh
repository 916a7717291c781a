#!/usr/bin/env bash
# Runs one example on a file made for it and checks what it leaves.
#
#   run_example.sh PROGRAM NAME [OPTIONS]
#
# IOWEAVE_EXAMPLE_PRELOAD: a library to load into the program alone.
# IOWEAVE_EXAMPLE_RUNTIME: nosv takes that library from IOWEAVE_TEST_NOSV_PREFIX; 77 without.
set -euo pipefail
program=$1
name=$2
if [ "${IOWEAVE_EXAMPLE_RUNTIME:-}" = nosv ]; then
  if [ -z "${IOWEAVE_TEST_NOSV_PREFIX:-}" ]; then
    echo "SKIP: IOWEAVE_TEST_NOSV_PREFIX does not say where nOS-V is installed"
    exit 77
  fi
  for folder in lib lib64; do
    library=$IOWEAVE_TEST_NOSV_PREFIX/$folder/libnosv.so
    if [ -e "$library" ]; then IOWEAVE_EXAMPLE_PRELOAD=$library; fi
  done
  if [ -z "${IOWEAVE_EXAMPLE_PRELOAD:-}" ]; then
    echo "no libnosv.so in lib or lib64 of $IOWEAVE_TEST_NOSV_PREFIX"
    exit 1
  fi
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c 5000001 /dev/urandom > "$dir/in"

case $name in
  copy)
    "$program" "$dir/in" "$dir/out"
    cmp "$dir/in" "$dir/out"
    if "$program" "$dir/missing" "$dir/out" 2> "$dir/error"; then
      echo "a missing input must fail"
      exit 1
    fi
    grep -q "missing" "$dir/error"
    ;;
  overlap)
    expected=$(od -An -v -tu1 "$dir/in" | awk '{ for (i = 1; i <= NF; i++) s += $i } END { printf "%d", s }')
    "$program" "$dir/in" | grep -q "sum of bytes: $expected"
    ;;
  admit)
    "$program" "$dir" 8 | grep "saved 8 files, 33554432 bytes"
    for number in 0 7; do
      [ "$(stat -c %s "$dir/save.$number")" -eq 4194304 ]
    done
    if "$program" "$dir/missing" 2 2> "$dir/error"; then
      echo "a missing folder must fail"
      exit 1
    fi
    grep -q "missing/save.1: No such file or directory" "$dir/error"
    ;;
  checkpoint)
    "$program" "$dir/state" 4
    [ "$(stat -c %s "$dir/state")" -eq $((4 * 8 * 1024 * 1024)) ]
    ;;
  stream_fortran)
    "$program" "$dir/state" | grep "4 checkpoints of 8388608 bytes"
    [ "$(stat -c %s "$dir/state")" -eq $((4 * 8388608)) ]
    "$program" "$dir/state" 100 7 1 | grep "7 checkpoints of 80000 bytes"
    if "$program" "$dir/missing/state" 2> "$dir/error"; then
      echo "a missing folder must fail"
      exit 1
    fi
    grep -q "missing/state.*No such file or directory" "$dir/error"
    ;;
  stencil_*)
    stencil() {  # [OPTIONS]; AddressSanitizer does not like to be loaded by a preloaded library
      LD_PRELOAD="${IOWEAVE_EXAMPLE_PRELOAD:-}" \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}${ASAN_OPTIONS:+:}verify_asan_link_order=0" \
        "$program" --recompute "$@" "$dir/state"
    }
    options=("${@:3}")
    stencil "${options[@]}" | grep "after 40 steps, 4 checkpoints of 16 blocks"
    # One block has no neighbours; seven do not divide the rows, nor three the steps.
    stencil "${options[@]}" --size 100 --blocks 1 --steps 7 --every 1
    stencil "${options[@]}" --size 100 --blocks 7 --steps 50 --every 3
    if dd if=/dev/zero of="$dir/probe" oflag=direct bs=4096 count=1 2> /dev/null; then
      stencil "${options[@]}" --direct
      stencil "${options[@]}" --direct --size 300 --blocks 40 --steps 60 --every 1
    fi
    if stencil "${options[@]}" --blocks many 2> "$dir/error"; then
      echo "a bad option must fail"
      exit 1
    fi
    grep -q -- "--blocks needs a number" "$dir/error"
    ;;
  *)
    echo "unknown example $name"
    exit 1
    ;;
esac
