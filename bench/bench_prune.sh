#!/bin/sh
# What a prune costs against cp of the same bytes: bench_prune.sh MODEL FOLDER [RUNS [cold]]
#
# The identity of MODEL (files of 1 GB, or of SHARD) is written to FOLDER with hashes, without, and by cp and sync, in turns; medians, each run's ratio to the cp
# before it, and the largest peak of memory. Both sides end on the disk: winnow syncs every file. cold: MODEL is put out of the page cache before each of
# them, as a model larger than memory is. Then verify reads the last output. WINNOW names the command.
# A model of K3's shapes: make_k3_slice.py (in the shared folder's tools) OUT.gguf --layers 5 --experts 48
set -eu
[ $# -ge 2 ] || { sed -n 2,8p "$0"; exit 2; }
model=$1
to=$2/bench-prune.$$
runs=${3:-5}
cold=${4:-}
shard=${SHARD:-1GB}
winnow=${WINNOW:-build/release/cli/winnow}
files=$model
case $model in
    *-00001-of-*.gguf) files="${model%-00001-of-*}-*-of-${model##*-of-}" ;;
    *) [ -d "$model" ] && files="$model/*.safetensors" ;;
esac
log=$(mktemp)
trap 'rm -rf "$to" "$log"' EXIT
trap 'exit 1' INT TERM

# What the page cache holds of files goes.
forget() {
    for f in "$@"; do dd if="$f" iflag=nocache count=0 status=none; done
}

# timed NAME COMMAND...: a line "NAME seconds peak-kB"
timed() {
    name=$1
    shift
    rm -rf "$to"
    mkdir "$to"
    sync
    [ -z "$cold" ] || forget $files
    /usr/bin/time -o "$to/time" -f "$name %e %M" "$@" > /dev/null
    cat "$to/time" >> "$log"
}

cat $files > /dev/null # as warm for the first as for the last
for _ in $(seq "$runs"); do
    timed cp sh -c "cp $files '$to' && sync '$to'/*"
    timed hashed "$winnow" convert "$model" -o "$to/out" --shard-size $shard --quiet
    timed unhashed "$winnow" convert "$model" -o "$to/out" --shard-size $shard --no-hash --quiet
done
timed made "$winnow" convert "$model" -o "$to/out" --shard-size $shard --quiet
first=$(find "$to" -name 'out*-00001-of-*.gguf' -o -name 'out*.gguf' | sort | head -n 1)
for _ in $(seq "$runs"); do
    [ -z "$cold" ] || forget $(find "$to" -name '*.gguf' -o -name '*.safetensors')
    /usr/bin/time -o "$to/time" -f "verify %e %M" "$winnow" verify "${first:-$to/out}" --quiet > /dev/null
    cat "$to/time" >> "$log"
done
bytes=$(cat $files | wc -c)
awk -v bytes="$bytes" '
    function median(name,    n, i, j, t, v) {
        n = count[name]
        for (i = 1; i <= n; i++) v[i] = seconds[name, i]
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    $1 == "made" { next }
    { seconds[$1, ++count[$1]] = $2; if ($3 > peak[$1]) peak[$1] = $3
      if ($1 != "cp" && $1 != "verify") { seconds[$1 "/cp", ++count[$1 "/cp"]] = $2 ? seconds["cp", count["cp"]] / $2 : 0 } }
    END {
        printf "%.2f GB, median of %d runs\n%-10s %9s %9s %14s %10s\n", bytes / 1e9, count["cp"], "", "seconds", "GB/s", "speed of cp", "peak MB"
        split("cp unhashed hashed verify", names, " ")
        for (i = 1; i <= 4; i++) {
            s = median(names[i])
            printf "%-10s %9.2f %9.2f %14s %10.0f\n", names[i], s, bytes / 1e9 / s, i == 1 || i == 4 ? "" : sprintf("%.2f", median(names[i] "/cp")), peak[names[i]] * 1024 / 1e6
        }
    }' "$log"
