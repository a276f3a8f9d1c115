#!/bin/sh
# Runs each fuzz target of a fuzz build for some seconds, from its corpus of nasty files. New inputs stay in the build folder.
# Usage: fuzz.sh BUILD SECONDS
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
seconds=$2
for t in "$build"/tests/fuzz/fuzz_*; do
    [ -f "$t" ] && [ -x "$t" ] || continue
    name=$(basename "$t" | sed 's/^fuzz_//')
    mkdir -p "$build/found/$name"
    echo "== $name, $seconds s"
    "$t" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$build/found/$name-" \
        "$build/found/$name" "$root/tests/fuzz/corpus/$name" > "$build/found/$name.log" 2>&1 || {
        tail -n 40 "$build/found/$name.log"
        exit 1
    }
    grep -E 'number_of_executed_units|peak_rss_mb' "$build/found/$name.log"
done
