#!/bin/sh
# Renders reports in headless Chromium and looks at what unit tests cannot see: that the browser has nothing to complain about,
# that the page asks nothing of a network, that nothing is wider than the page, wide and narrow, light and dark.
#
#   WINNOW=build/release/cli/winnow WINNOW_DATA=data tools/check-report.sh [FOLDER]
#
# FOLDER keeps the pages and a picture of each. Chromium is installed where it is missing (Debian); where that cannot be, the
# reason is said, and that is a success. The browser gets a profile of its own and can resolve no name; it is checked first that an
# error, a request and a page too wide are seen.
set -eu

: "${WINNOW:=winnow}" "${WINNOW_DATA:=data}"
WINNOW=$(command -v "$WINNOW")
WINNOW=$(cd "$(dirname "$WINNOW")" && pwd)/$(basename "$WINNOW")
WINNOW_DATA=$(cd "$WINNOW_DATA" && pwd)
export WINNOW_DATA
tools=$(cd "$(dirname "$0")" && pwd)
find_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome || true; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$(find_browser)" ] && ! "$tools/install-packages.sh" chromium > "$work/log" 2>&1; then
    echo "skipped: chromium cannot be installed: $(tail -n 1 "$work/log")"
    exit 0
fi
browser=$(find_browser)
if [ -z "$browser" ]; then
    echo "skipped: there is no chromium here, and only Debian's is installed by itself"
    exit 0
fi
out=${1:-$work/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# A sandbox needs rights that root and containers do not have; the pages are our own.
browse() {
    timeout 40 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-default-apps \
        --host-resolver-rules="MAP * ~NOTFOUND" --enable-logging=stderr "$@" 2> "$work/log"
}

# What is wrong with a page, a line each; nothing when all is well. The second run may do what the page's own policy forbids, so
# that a request would be made and the widths can be asked for.
faults() {
    browse --dump-dom "file://$1" > "$work/dom"
    grep -q '</html>' "$work/dom" || echo "nothing was rendered"
    sed -n 's/.*CONSOLE[^]]*\] /console: /p' "$work/log"
    sed 's/<meta http-equiv="Content-Security-Policy"[^>]*>//' "$1" > "$work/open.html"
    echo '<script>document.title = "width " + document.documentElement.scrollWidth + " of " + innerWidth</script>' >> "$work/open.html"
    for width in 1200 520; do
        browse --window-size=$width,900 --log-net-log="$work/net" --dump-dom "file://$work/open.html" > "$work/dom"
        # the browser's own questions are to its maker's hosts
        grep -o '"url":"https*://[^"]*' "$work/net" | sed 's/.*:"/request: /' | sort -u |
            grep -v -E '//[a-z0-9-]+\.(google|googleapis|gvt1)\.com' || true
        sed -n 's/.*<title>width \([0-9]*\) of \([0-9]*\)<.*/\1 \2/p' "$work/dom" | awk '
            { seen = 1; if ($1 > $2) print "too wide: " $1 " of " $2 }
            END { if (!seen) print "no width was told" }'
    done
}

printf '<html><head><meta http-equiv="Content-Security-Policy" content="default-src %s"><title>x</title></head><body>%s%s</body></html>\n' \
    "'none'" '<img src="http://192.0.2.1/x.png">' '<div style="width:3000px;height:9px"></div>' > "$work/bad.html"
faults "$work/bad.html" > "$work/found"
for wanted in console: request: "too wide:"; do
    grep -q "^$wanted" "$work/found" || { echo "the check itself does not see: $wanted"; cat "$work/found"; exit 1; }
done

cd "$work"
sal=sal.npz
corpus=$WINNOW_DATA/corpora/calib-mixed.jsonl
"$WINNOW" calibrate k3-mini --corpus "$corpus" --max-tokens 8192 --means -o $sal --quiet > /dev/null
"$WINNOW" probe k3-mini $sal --corpus "$corpus" --seq 64 --tokens 1024 --keep 50% -o probed.npz --quiet > /dev/null
"$WINNOW" plan $sal --keep 36% --weights en=1,code=2 -o plan.json --quiet > /dev/null
"$WINNOW" eval k3-mini --text en="$WINNOW_DATA/corpora/heldout-en.txt" --max-windows 2 --window 64 --json --quiet > eval.json
"$WINNOW" report $sal plan.json --eval eval.json --eval eval.json -o "$out/planned.html" --force > /dev/null
"$WINNOW" plan probed.npz --budget probe --keep 50% --min-experts 4 -o budget.json --quiet > /dev/null 2>&1
"$WINNOW" plan $sal --mode graded --hi 12 --lo 16 --lo-bits 2 -o graded.json --quiet > /dev/null
"$WINNOW" eval k3-mini --text en="$WINNOW_DATA/corpora/heldout-en.txt" --max-windows 2 --window 64 --against k3-mini \
    --masked budget.json --ghosts mean --saliency $sal --json --quiet > ghosts.json
"$WINNOW" report probed.npz budget.json --eval ghosts.json -o "$out/budget.html" --force > /dev/null
"$WINNOW" report $sal graded.json -o "$out/graded.html" --force > /dev/null
"$WINNOW" report $sal -o "$out/archive.html" --force > /dev/null

bad=0
for page in planned archive budget graded; do
    faults "$out/$page.html" > "$work/found"
    if [ -s "$work/found" ]; then
        echo "$page.html:"
        cat "$work/found"
        bad=1
    fi
    browse --window-size=1200,5600 --screenshot="$out/$page-light.png" "file://$out/$page.html" > /dev/null
    browse --window-size=1200,5600 --blink-settings=preferredColorScheme=0 --screenshot="$out/$page-dark.png" "file://$out/$page.html" > /dev/null
    cmp -s "$out/$page-light.png" "$out/$page-dark.png" && { echo "$page.html: dark looks like light"; bad=1; }
done
[ $bad = 0 ] && echo "reports in $("$browser" --version 2> /dev/null | sed 's/ built.*//'): no complaint, no request, nothing too wide"
exit $bad
