#!/bin/sh
# Runs one case of tests/cli/cases in an empty folder and compares what it said.
#
#   run-case.sh CASE_FOLDER WINNOW
#
# CASE/cmd is run by sh with `winnow` on the PATH; $DATA is tests/data, $SHARED the shared folder (the case exits 77 when it
# needs something that is not there). CASE/stdout and CASE/stderr are extended regular expressions, one per line, each matching the
# whole line of the same number; a file that is absent is not compared. CASE/code is the exit code wanted (absent: 0).
# UPDATE=1 writes what was said instead of comparing, for a first draft of the expectations.
set -u

case_dir=$1
winnow=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/in"
ln -s "$winnow" "$work/bin/winnow"
PATH="$work/bin:$PATH"
DATA="$WINNOW_SOURCE/tests/data"
SHARED="${WINNOW_SHARED:-$WINNOW_SOURCE/../shared}"
export PATH DATA SHARED
cd "$work/in" || exit 1

sh "$case_dir/cmd" > "$work/stdout" 2> "$work/stderr" < /dev/null
code=$?
[ $code = 77 ] && { cat "$work/stdout" "$work/stderr"; exit 77; }
wanted=0
[ -f "$case_dir/code" ] && wanted=$(cat "$case_dir/code")
bad=0
if [ "$code" != "$wanted" ]; then
    echo "exit code $code, wanted $wanted"
    bad=1
fi
for stream in stdout stderr; do
    if [ "${UPDATE:-0}" = 1 ]; then
        sed 's/[][().*+?{}|^$\\]/\\&/g' "$work/$stream" > "$case_dir/$stream"
        continue
    fi
    [ -f "$case_dir/$stream" ] || continue
    awk -v stream=$stream '
        NR == FNR { want[FNR] = $0; n = FNR; next }
        { got++; if (got > n) { print stream ": line " got " is one too many: " $0; bad = 1 }
          else if ($0 !~ ("^(" want[got] ")$")) { print stream ": line " got " is: " $0 "\n  wanted: " want[got]; bad = 1 } }
        END { if (got < n) { print stream ": " got + 0 " lines, wanted " n; bad = 1 } exit bad }' \
        "$case_dir/$stream" "$work/$stream" || bad=1
done
[ $bad = 0 ] || { echo "--- stdout"; cat "$work/stdout"; echo "--- stderr"; cat "$work/stderr"; }
exit $bad
