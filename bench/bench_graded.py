#!/usr/bin/env python3
"""Decoding speed of a graded build against a uniform one that reads as many bytes a token, in turns.

  bench/bench_graded.py --out DIR [--winnow build/release/cli/winnow] [--container mlx gguf] [--threads 1 2]
                        [--rounds 9] [--tokens 12]

Builds are made of one slice with K3's layer sizes (k3_slice.py) and kept in DIR: 15 GB for mlx, 20 GB for gguf. A
graded build reads 16 experts a token, some of 2 bits; the uniform one reads 12 whole ones: top-k is the only knob that
gives both the same bytes without another type of quantisation. An expert of MXFP4 has 4.25 bits a weight, of affine 2
bits (groups of 64) 2.5 and of Q2_K 2.625, so with H whole and L lesser experts a layer

  mlx:  16 (11 x 4.25 + 17 x 2.5) / 28 = 12 x 4.25        gguf:  16 (9 x 4.25 + 17 x 2.625) / 26 = 12 x 4.25

for a router without a preference; the slice's has random rows and no bias, and which experts are the lesser ones is
drawn. Everything but the experts is the same in both. The script holds that `inspect` tells both builds the same bytes
a token. A graded token takes a third more multiplications in its experts than the uniform one, for the same bytes: what
is measured is whether kernels keep up. How it is measured: pairs.py.
"""
import json
import os
import random
import sys

from pairs import Pairs, arguments, ratio, row, speed

LAYERS, EXPERTS, TOP_K, UNIFORM_TOP_K = 4, 28, 16, 12
# whole and lesser experts a layer
BANKS = {"mlx": (11, 17), "gguf": (9, 17)}


def plan_make(path, top_k, whole, lesser):
    layers = {}
    for i in range(LAYERS):
        rng = random.Random(i)
        keep = sorted(rng.sample(range(EXPERTS), whole + lesser))
        first = sorted(rng.sample(keep, whole))
        bits = {str(e): "mxfp4" if e in first else "2bit" for e in keep} if lesser else {"all": "mxfp4"}
        layers[str(i)] = {"keep": first + [e for e in keep if e not in first], "bits": bits}
    mode = "graded" if lesser else "uniform"
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"mode": mode, "top_k": top_k, "num_experts": EXPERTS, "layers": layers}, f)
    return path


class Graded(Pairs):
    def twin(self, top_k):
        """The slice with another top-k, of the same files."""
        source = self.slice(f"slice-top{TOP_K}", layers=LAYERS, experts=EXPERTS, top_k=TOP_K)
        made = self.path(f"slice-top{top_k}")
        if os.path.exists(os.path.join(made, "config.json")):
            return made
        os.makedirs(made, exist_ok=True)
        for name in os.listdir(source):
            if name != "config.json" and not os.path.exists(os.path.join(made, name)):
                os.link(os.path.join(source, name), os.path.join(made, name))
        with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config["text_config"]["num_experts_per_token"] = top_k
        with open(os.path.join(made, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return made

    def build(self, container, kind):
        made = self.path(f"{container}-{kind}" + (".gguf" if container == "gguf" else ""))
        if not os.path.exists(made):
            whole, lesser = BANKS[container]
            banks = (whole, lesser) if kind == "graded" else (whole + lesser, 0)
            top_k = TOP_K if kind == "graded" else UNIFORM_TOP_K
            plan = plan_make(self.path(f"{container}-{kind}.json"), top_k, *banks)
            words = ["--encoder", "minmax"] if container == "mlx" else []
            self.winnow("prune", self.twin(top_k), "--plan", plan, "--format", container, "-o", made, "--no-hash",
                        *words)
        return made

    def token_bytes(self, model):
        return json.loads(self.winnow("inspect", model, "--json"))["token_bytes"]

    def compare(self, container, threads):
        models = {kind: self.build(container, kind) for kind in ("uniform", "graded")}
        size = {kind: self.token_bytes(model) for kind, model in models.items()}
        if abs(size["graded"] / size["uniform"] - 1) > 0.001:
            sys.exit(f"{container}: {size} bytes a token are not the same")
        took, _ = self.measure(models, threads)
        for by, name in enumerate(("clock", "processor")):
            row(container, threads, name, f"{size['graded'] / 1e9:.3f}",
                *(speed(took, kind, by, size[kind]) for kind in models), ratio(took, "uniform", "graded", by))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--container", nargs="+", choices=list(BANKS), default=list(BANKS))
    args = parser.parse_args()
    bench = Graded(args)
    print(f"kernels: {os.environ.get('WINNOW_CPU', 'the best')}; median and range of {args.rounds} rounds\n")
    row("build", "threads", "by", "GB a token", "uniform: tokens/s, GB/s", "graded", "graded / uniform")
    print("|---|---|---|---|---|---|---|")
    for container in args.container:
        for threads in args.threads:
            bench.compare(container, threads)


if __name__ == "__main__":
    main()
