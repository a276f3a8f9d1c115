#!/usr/bin/env python3
"""Decoding speed of builds with ghosts against the plain build of the same kept experts, in turns.

  bench/bench_ghosts.py --out DIR [--winnow build/release/cli/winnow] [--corpus data/corpora/heldout-en.txt]
                        [--threads 1 2] [--rounds 9] [--tokens 12]

Of one slice with K3's layer sizes (k3_slice.py), 32 experts a layer of which half stay, MLX folders are made: with
ghosts that give nothing (skip), with ghosts that give their mean output (mean, of a calibration with 128 tokens), and
the plain export of the first (convert --plain). All read 16 experts a token at most; a choice that falls on a ghost
reads none, so that a build with ghosts should be faster by as much as it reads less. 20 GB in DIR. How it is measured:
pairs.py. Bytes are those that the ledger of `run` tells, read in fact; `saved` is their share that the plain build
reads besides, `by bytes` what the ratio would be if only bytes counted.
"""
import json
import os
import random

from pairs import Pairs, arguments, ratio, row, speed

LAYERS, EXPERTS, KEPT, TOP_K = 4, 32, 16, 16


class Ghosts(Pairs):
    def plan(self):
        path = self.path("ghosts-plan.json")
        if not os.path.exists(path):
            layers = {str(i): {"keep": sorted(random.Random(i).sample(range(EXPERTS), KEPT))} for i in range(LAYERS)}
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"mode": "uniform", "top_k": TOP_K, "num_experts": EXPERTS, "layers": layers}, f)
        return path

    def saliency(self, source):
        path = self.path("ghosts-saliency.npz")
        if not os.path.exists(path):
            self.winnow("calibrate", source, "--corpus", self.args.corpus, "--max-tokens", "128", "--seq", "64",
                        "--means", "-o", path)
        return path

    def build(self, kind):
        made = self.path(f"ghosts-{kind}")
        if os.path.exists(made):
            return made
        if kind == "plain":
            self.winnow("convert", self.build("skip"), "--plain", "-o", made)
            return made
        source = self.slice("slice-ghosts", layers=LAYERS, experts=EXPERTS, top_k=TOP_K)
        words = ["--saliency", self.saliency(source)] if kind == "mean" else []
        self.winnow("prune", source, "--plan", self.plan(), "--ghosts", kind, "--format", "mlx", "--encoder", "minmax",
                    "-o", made, "--no-hash", *words)
        return made

    def gain(self, took, told, kind, by):
        """What a build with ghosts does not read, and what it gains."""
        ghosts, whole, read = told[kind]["ghosts"], told["plain"]["token_bytes"], told[kind]["token_bytes"]
        return [f"{100 * ghosts['ghosts'] / ghosts['chosen']:.1f}", f"{100 * (1 - read / whole):.1f}",
                f"{whole / read:.3f}", ratio(took, "plain", kind, by)]

    def compare(self, threads):
        models = {kind: self.build(kind) for kind in ("plain", "skip", "mean")}
        took, told = self.measure(models, threads)
        size = {kind: told[kind]["token_bytes"] for kind in models}
        for by, name in enumerate(("clock", "processor")):
            for kind in models:
                cells = [kind, threads, name, f"{size[kind] / 1e9:.3f}", speed(took, kind, by, size[kind])]
                cells += ["", "", "", ""] if kind == "plain" else self.gain(took, told, kind, by)
                row(*cells)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="data/corpora/heldout-en.txt")
    args = parser.parse_args()
    bench = Ghosts(args)
    print(f"kernels: {os.environ.get('WINNOW_CPU', 'the best')}; median and range of {args.rounds} rounds\n")
    row("build", "threads", "by", "GB a token", "tokens/s, GB/s", "to ghosts, %", "saved, %", "by bytes",
        "against plain")
    print("|---|---|---|---|---|---|---|---|---|")
    for threads in args.threads:
        bench.compare(threads)


if __name__ == "__main__":
    main()
