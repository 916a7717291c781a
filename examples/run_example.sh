#!/usr/bin/env bash
# Runs one example on a file made for it and checks what it leaves.
#
#   run_example.sh PROGRAM NAME [OPTIONS]
#
# IOWEAVE_EXAMPLE_PRELOAD: a library to load into the program alone.
# IOWEAVE_EXAMPLE_RUNTIME: nosv takes that library from IOWEAVE_TEST_NOSV_PREFIX; 77 without. nodes
# builds PROGRAM, a source, against what IOWEAVE_TEST_NODES_PREFIX names; 77 without. Its nOS-V is
# looked for under IOWEAVE_TEST_NOSV_PREFIX, or else under the same prefix.
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
if [ "${IOWEAVE_EXAMPLE_RUNTIME:-}" = nodes ] && [ -z "${IOWEAVE_TEST_NODES_PREFIX:-}" ]; then
  echo "SKIP: IOWEAVE_TEST_NODES_PREFIX does not say where NODES is installed"
  exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c 5000001 /dev/urandom > "$dir/in"

case $name in
  prefetch | prefetch_c | prefetch_fortran)
    second=$([ "$name" = prefetch ] && echo loop || echo generator)
    blocks=76  # of 64 KiB: the whole file, and a part of one at its end
    sum=$(od -An -v -tu1 "$dir/in" | awk '{ for (i = 1; i <= NF; ++i) sum += $i } END { printf "%d", sum }')
    cmp <("$program" "$dir/in" "$((blocks + 1))") \
      <(printf 'by plan: %s\nby %s: %s\n' "$sum" "$second" "$sum")
    if "$program" "$dir/missing" 1 2> "$dir/error"; then
      echo "a missing input must fail"
      exit 1
    fi
    grep -q "missing.*No such file or directory" "$dir/error"
    ;;
  planned_reads_mpi)
    expected="sum of bytes: $(od -An -v -tu1 "$dir/in" | awk '{ for (i = 1; i <= NF; i++) s += $i } END { printf "%d", s }')"
    "$program" "$dir/in" | grep -qx "$expected"
    LD_PRELOAD="$IOWEAVE_EXAMPLE_PRELOAD" IOWEAVE_MPIIO_REPORT="$dir/report" "$program" "$dir/in" | grep -qx "$expected"
    cat "$dir/report"
    grep -q '"planned_reads":77' "$dir/report"
    ;;
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
  pipeline_ompss2)
    nodes=$IOWEAVE_TEST_NODES_PREFIX
    nosv=${IOWEAVE_TEST_NOSV_PREFIX:-$nodes}
    libraries=()
    for folder in "$nodes"/lib "$nodes"/lib64 "$nosv"/lib "$nosv"/lib64; do
      if [ -d "$folder" ]; then libraries+=("-L$folder" "-Wl,-rpath,$folder"); fi
    done
    wrapper=$(find "$nodes" -name nodes-main-wrapper.o | head -n 1)
    if [ -z "$wrapper" ]; then
      echo "no nodes-main-wrapper.o below $nodes: IOWEAVE_TEST_NODES_PREFIX must name a NODES"
      exit 1
    fi
    "${CC:-cc}" -std=gnu11 -O2 -I"$nodes/include" "$program" "$wrapper" -Wl,--no-as-needed \
      "${libraries[@]}" -lnodes -lnosv -o "$dir/pipeline"
    head -c 4194304 /dev/urandom > "$dir/blocks"
    pipeline() {  # OUT [OPTIONS]
      "$dir/pipeline" "${@:2}" "$dir/blocks" "$dir/$1" | grep ", 0 wrong"
    }
    paused() {  # REAPER [OPTIONS]: what it writes, and that its calls were those of tasks
      rm -f "$dir/paused" "$dir/report"
      LD_PRELOAD="$IOWEAVE_EXAMPLE_PRELOAD" IOWEAVE_TASK_REAPER="$1" \
        IOWEAVE_TASK_REPORT="$dir/report" pipeline paused "${@:2}"
      cmp "$dir/plain" "$dir/paused"
      cat "$dir/report"
      grep -q '"tasks":"ALPI ' "$dir/report"
      grep -Eq '"(pauses|at_once|alone)":[1-9]' "$dir/report"
    }
    pipeline plain
    paused thread
    paused task
    if dd if=/dev/zero of="$dir/probe" oflag=direct bs=4096 count=1 2> /dev/null; then
      paused thread --direct
      paused task --direct
      grep -q '"pauses":[1-9]' "$dir/report"
    fi
    ;;
  spread_checkpoint)
    mkdir "$dir/one" "$dir/two"
    "$program" "$dir/first" 10 "$dir/one" "$dir/two" | tee "$dir/uninterrupted"
    for target in one/first.0 two/first.1; do  # a step and 16 blocks of 512 KiB, in turn
      [ "$(stat -c %s "$dir/$target")" -ge $((8 * 524288)) ]
    done
    "$program" --from "$dir/first" "$dir/second" 5 "$dir/one" "$dir/two" > "$dir/restarted"
    grep -q "goes on from step 10" "$dir/restarted"
    cmp <(tail -n 1 "$dir/restarted") "$dir/uninterrupted"
    rm "$dir/two/first.1"
    if "$program" --from "$dir/first" "$dir/third" 1 "$dir/one" 2> "$dir/error"; then
      echo "a missing data file must fail"
      exit 1
    fi
    grep -q "cannot read item 1: cannot open '.*two/first.1'" "$dir/error"
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
