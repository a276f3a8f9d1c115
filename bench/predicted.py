#!/usr/bin/env python3
"""What plans are predicted to lose against what they lose, as a Markdown table (docs/fidelity.md).

  bench/predicted.py --winnow build/release/cli/winnow --out DIR [--windows 16] [--keep 32]

DIR/saliency.npz is an archive of k3-mini with probes; without it one is made as bench/budgets.py makes it. Plans of one size that differ
in criterion and budget are scored against the whole model on held-out text; predicted and measured are the mean KLD over the four
domains, and their orders are compared (Spearman's rank correlation).
"""
import argparse
import json

from budgets import Budgets
from fidelity import DOMAINS

PLANS = {
    "uniform, reap": [],
    "uniform, share": ["--criterion", "share"],
    "uniform, count": ["--criterion", "count"],
    "uniform, gate": ["--criterion", "gate"],
    "global, reap": ["--budget", "global"],
    "global, raw sums": ["--budget", "global", "--raw"],
    "probe, reap": ["--budget", "probe"],
    "probe, reap, floor of a half": ["--budget", "probe", "--min-experts", "{half}"],
    "probe, reap, floor of three quarters": ["--budget", "probe", "--min-experts", "{most}"],
    "probe, share": ["--budget", "probe", "--criterion", "share"],
    "probe, reap, for code": ["--budget", "probe", "--weights", "code=1"],
    "probe, reap, for ja": ["--budget", "probe", "--weights", "ja=1"],
}


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [order.index(i) for i in range(len(values))]


def spearman(a, b):
    n = len(a)
    return 1 - 6 * sum((x - y)**2 for x, y in zip(ranks(a), ranks(b))) / (n * (n * n - 1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--winnow", default="build/release/cli/winnow")
    p.add_argument("--data", default="data")
    p.add_argument("--out", required=True)
    p.add_argument("--windows", type=int, default=16)
    p.add_argument("--keep", type=int, default=32)
    args = p.parse_args()
    b = Budgets(args)
    b.calibrate()
    print("| plan | predicted | measured |\n|---|---|---|", flush=True)
    predicted, measured = [], []
    for i, (name, words) in enumerate(PLANS.items()):
        words = [w.format(half=args.keep // 2, most=3 * args.keep // 4) for w in words] + ["--keep", str(args.keep)]
        plan = b.plan(f"predicted-{args.keep}-{i}", *words)
        with open(plan, encoding="utf-8") as f:
            sources = json.load(f)["winnow"]["predicted"]["sources"]
        domains = b.score(f"predicted-{args.keep}-{i}", b.model, "--masked", plan)["domains"]
        predicted.append(1000 * sum(sources[d] for d in DOMAINS) / len(DOMAINS))
        measured.append(1000 * sum(d["kld_mean"] for d in domains) / len(domains))
        print(f"| {name} | {predicted[-1]:.1f} | {measured[-1]:.1f} |", flush=True)
    print(f"\nrank correlation of {len(measured)} plans: {spearman(predicted, measured):.2f}")


if __name__ == "__main__":
    main()
