#!/bin/sh
# The whole road on the bundled k3-mini: calibrate on text of four domains, plan with two sets of weights at two sizes, prune,
# verify, and say what each cut cost: bytes, saliency kept, held-out perplexity, and a continuation.
#
# WINNOW names the command, WINNOW_DATA the data folder (both set by `make demo`). OUT keeps the results in a folder. TOKENS and WINDOWS
# are how much is calibrated on and how much of each domain is scored; 0 is all there is, which takes a few minutes more.
set -eu

: "${WINNOW:=winnow}" "${WINNOW_DATA:=data}" "${TOKENS:=120000}" "${WINDOWS:=40}"
export WINNOW_DATA
corpora=$WINNOW_DATA/corpora
domains="code en zh ja"
prompt="The purpose of this chapter is to"
if [ -n "${OUT:-}" ]; then
    out=$OUT
    mkdir -p "$out"
else
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi

w() { "$WINNOW" "$@"; }

# one row per domain: perplexity by `eval`
score() {
    texts=""
    for d in $domains; do texts="$texts --text $d=$corpora/heldout-$d.txt"; done
    # shellcheck disable=SC2086
    w eval "$1" $texts --max-windows "$WINDOWS" --quiet > "$out/$2.eval"
    w run "$1" -p "$prompt" -n 24 --quiet > "$out/$2.text"
}

folder_bytes() { cat "$1"/* | wc -c; }

start=$(date +%s)
echo "== the model"
w inspect k3-mini | sed -n '1,12p'
echo
echo "== calibrate: the saliency of every expert on text of four domains"
w calibrate k3-mini --corpus "$corpora/calib-mixed.jsonl" --max-tokens "$TOKENS" -o "$out/saliency.npz" --force
score k3-mini whole

for share in 71 36; do
    for weights in en=1,code=1 zh=1,ja=1; do
        name=$share-$(echo "$weights" | sed 's/=1//g; s/,/+/')
        echo
        echo "== plan, prune and verify: $share % of the experts, weights $weights"
        w plan "$out/saliency.npz" --keep "$share%" --weights "$weights" -o "$out/$name.json" --force > "$out/$name.plan"
        sed -n '1,2p' "$out/$name.plan"
        rm -rf "${out:?}/$name"
        w prune k3-mini --plan "$out/$name.json" -o "$out/$name"
        w verify "$out/$name" --source k3-mini --plan "$out/$name.json"
        score "$out/$name" "$name"
    done
done

names="71-en+code 71-zh+ja 36-en+code 36-zh+ja"
echo
echo "== what the cuts cost (k3-mini, held-out text; $(($(date +%s) - start)) s so far)"
echo
awk 'NR > 1 { n += $4; w += $5 } END { print "perplexity over " w " windows of 512 tokens (" n " predicted), and its change against the whole model" }' "$out/whole.eval"
printf '%-14s %12s' build bytes
for d in $domains; do printf ' %18s' "$d"; done
printf '\n%-14s %12s' whole "$(folder_bytes "$WINNOW_DATA/models/k3-mini")"
for d in $domains; do
    awk -v d="$d" '$1 == d { printf " %18.3f", $2 }' "$out/whole.eval"
done
for n in $names; do
    printf '\n%-14s %12s' "$n" "$(folder_bytes "$out/$n")"
    for d in $domains; do
        awk -v d="$d" '$1 != d { next } FNR == NR { whole = $2; next } { printf " %8.3f (%+5.2f %%)", $2, 100 * ($2 / whole - 1) }' \
            "$out/whole.eval" "$out/$n.eval"
    done
done
echo
echo
echo "saliency kept per source"
printf '%-14s %12s' build all
for d in $domains; do printf ' %18s' "$d"; done
for n in $names; do
    printf '\n%-14s' "$n"
    awk '$1 == "saliency" { printf " %10s %%", $3 }' "$out/$n.plan"
    for d in $domains; do awk -v d="$d" '$1 == d && $3 == "%" && NF == 3 { printf " %16s %%", $2 }' "$out/$n.plan"; done
done
echo
echo
sed -n '/experts in common/,$p' "$out/36-en+code.plan" | sed '1s/$/, 36 % kept/'
echo
echo "greedy continuations of \"$prompt\", verbatim"
for n in whole $names; do printf '%-14s %s\n' "$n" "$(tr '\n' ' ' < "$out/$n.text")"; done
echo

# The direction that pruning by saliency must show: a domain loses less under the plan that weights it than under the other.
awk -v domains="$domains" -v out="$out" '
    function ppl(name, d,    file, line, f) {
        file = out "/" name ".eval"
        while ((getline line < file) > 0) { split(line, f); if (f[1] == d) { close(file); return f[2] } }
        close(file); return 0
    }
    BEGIN {
        n = split(domains, d, " ")
        for (s = 71; s >= 36; s -= 35)
            for (i = 1; i <= n; i++) {
                own = d[i] == "en" || d[i] == "code" ? "en+code" : "zh+ja"
                other = own == "zh+ja" ? "en+code" : "zh+ja"
                a = ppl(s "-" own, d[i]); b = ppl(s "-" other, d[i])
                if (!(a > 0 && a < b)) { printf "NOT as expected: %s at %d %%: %s under %s, %s under %s\n", d[i], s, a, own, b, other; bad = 1 }
            }
        if (!bad) print "as expected: at both sizes every domain loses less under the plan that weights it than under the other"
        exit bad
    }'
