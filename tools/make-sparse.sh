#!/bin/sh
# Makes Kimi-K3's published files in full size as sparse files, only headers and a few markers in them, for the tests that
# WINNOW_SPARSE turns on: OUT/hf (the checkpoint, 1.56 TB), OUT/gguf-r1 and OUT/gguf-r2 (the two revisions of UD-IQ1_S, 594 GB
# each), OUT/gguf-iq2_xxs (711 GB) and OUT/gguf-mxfp4 (UD-Q4_K_XL, 1.51 TB). About 250 MB are stored. The maker is a program of its own in the shared folder, which knows nothing of our code.
# What is there already is kept. Usage: make-sparse.sh OUT
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$1
maker=${WINNOW_SHARED:-$root/../shared}/tools/make_sparse_k3.py
[ -f "$maker" ] || {
    echo "there is no '$maker': the sparse files cannot be made" >&2
    exit 1
}
command -v python3 > /dev/null 2>&1 || "$root"/tools/install-packages.sh python3

# NAME KIND [OPTIONS]
make_set() {
    name=$1
    kind=$2
    shift 2
    [ -d "$out/$name" ] && return
    rm -rf "$out/$name.part"
    python3 "$maker" "$kind" "$out/$name.part" "$@" | tail -n 1
    mv "$out/$name.part" "$out/$name"
}

mkdir -p "$out"
make_set hf hf
make_set gguf-r1 gguf --profile ud-iq1_s
make_set gguf-r2 gguf --profile ud-iq1_s-r2
make_set gguf-iq2_xxs gguf --profile ud-iq2_xxs
make_set gguf-mxfp4 gguf --profile mxfp4
