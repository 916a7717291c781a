#!/usr/bin/env bash
# Runs one example on a file made for it and checks what it leaves.
set -euo pipefail
program=$1
name=$2
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
  checkpoint)
    "$program" "$dir/state" 4
    [ "$(stat -c %s "$dir/state")" -eq $((4 * 8 * 1024 * 1024)) ]
    ;;
  *)
    echo "unknown example $name"
    exit 1
    ;;
esac
