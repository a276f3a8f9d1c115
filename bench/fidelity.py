#!/usr/bin/env python3
"""What each way of choosing experts costs, as a Markdown table (docs/fidelity.md).

  bench/fidelity.py --winnow build/release/cli/winnow --out DIR [--windows 32] [--only uniform|graded]

Calibrates k3-mini once on the bundled corpus. For every weighting, budget and criterion it makes a plan and scores it against
the whole model on held-out text (eval --masked --against, which agrees bit for bit with the build). Graded plans are built as
MLX folders at the bytes of a uniform plan and scored as builds. Finished results are kept in DIR: a stopped run goes on.
"""
import argparse
import json
import os
import random
import subprocess

DOMAINS = ["code", "en", "zh", "ja"]
WEIGHTS = {"mixed": None, "en+code": "en=1,code=1", "zh+ja": "zh=1,ja=1"}
BUDGETS = {"71 %": 45, "50 %": 32, "36 %": 23}
CRITERIA = ["reap", "reap-mean", "share", "gate", "norm-mean", "count"]
# first bank and both banks, of 64 experts; one of 2 bits (2.67 with its scales, here) takes 0.627 of a whole one (4.25)
GRADED = {"71 %": (21, 59), "50 %": (13, 43), "36 %": (8, 31)}


class Bench:
    def __init__(self, args):
        self.args = args
        self.corpora = os.path.join(args.data, "corpora")
        self.model = os.path.join(args.data, "models", "k3-mini")
        os.makedirs(args.out, exist_ok=True)

    def path(self, name):
        return os.path.join(self.args.out, name)

    def winnow(self, *words):
        return subprocess.run([self.args.winnow, *words, "--quiet"], check=True, stdout=subprocess.PIPE).stdout

    def calibrate(self):
        if not os.path.exists(self.path("saliency.npz")):
            self.winnow("calibrate", self.model, "--corpus", os.path.join(self.corpora, "calib-mixed.jsonl"), "-o",
                        self.path("saliency.npz"), "--work", self.path("work"))

    def plan(self, name, *words, archive="saliency.npz"):
        if "--criterion" not in words:
            words += ("--criterion", "reap")  # what published builds are by, and all are compared with
        self.winnow("plan", self.path(archive), "-o", self.path(name + ".plan.json"), "--force", "--min-experts",
                    "4", *words)
        return self.path(name + ".plan.json")

    def score(self, name, model, *words):
        """Evaluates once; the result is kept."""
        kept = self.path(name + ".json")
        if not os.path.exists(kept):
            texts = [w for d in DOMAINS for w in ("--text", f"{d}={self.corpora}/heldout-{d}.txt")]
            made = self.winnow("eval", model, "--against", self.model, *texts, "--max-windows", str(self.args.windows),
                               "--json", *words)
            with open(kept + ".part", "wb") as f:
                f.write(made)
            os.rename(kept + ".part", kept)
        with open(kept, encoding="utf-8") as f:
            return json.load(f)

    def uniform(self, weights, budget, criterion):
        name = f"uniform-{weights}-{BUDGETS[budget]}-{criterion}"
        words = ["--keep", str(BUDGETS[budget]), "--criterion", criterion]
        if WEIGHTS[weights]:
            words += ["--weights", WEIGHTS[weights]]
        if os.path.exists(self.path(name + ".json")):
            return self.score(name, self.model)
        return self.score(name, self.model, "--masked", self.plan(name, *words))

    def graded(self, weights, budget):
        name = f"graded-{weights}-{budget.split()[0]}"
        if os.path.exists(self.path(name + ".json")):
            return self.score(name, self.model)
        high, both = GRADED[budget]
        words = ["--mode", "graded", "--hi", str(high), "--lo", str(both - high)]
        if WEIGHTS[weights]:
            words += ["--weights", WEIGHTS[weights]]
        plan = self.plan(name, *words)
        folder = self.path(name)
        if not os.path.exists(folder):
            self.winnow("prune", self.model, "--plan", plan, "--format", "mlx", "--rest-bits", "16", "-o", folder)
        return self.score(name, folder, "--plan", plan)


def cell(d):
    """Mean KLD in thousandths of a nat, with its interval."""
    low_high = d.get("kld_mean_interval")
    text = f"{1000 * d['kld_mean']:.1f}"
    return text + (f" [{1000 * low_high[0]:.1f}, {1000 * low_high[1]:.1f}]" if low_high else "")


def row(name, result):
    domains = {d["domain"]: d for d in result["domains"]}
    all_ = result["overall"]
    return "| " + " | ".join([name, cell(all_), *(cell(domains[d]) for d in DOMAINS),
                              f"{100 * all_['argmax_agreement']:.1f}", f"{all_['ppl_ratio']:.4f}",
                              "" if all_["misroute"] is None else f"{100 * all_['misroute']:.1f}"]) + " |"


def paired(a, b, draws=4000):
    """How much larger a's mean KLD is than b's, in per cent of b's, with a 95 % interval: windows are drawn within each
    domain, the same ones for both."""
    rng = random.Random(1)
    x = {d["domain"]: d["kld_windows"] for d in a["domains"]}
    y = {d["domain"]: d["kld_windows"] for d in b["domains"]}

    def change(pick):
        p = sum(x[d][i] for d in x for i in pick[d])
        return 100 * (p / sum(y[d][i] for d in x for i in pick[d]) - 1)

    drawn = sorted(change({d: [rng.randrange(len(x[d])) for _ in x[d]] for d in x}) for _ in range(draws))
    return change({d: range(len(x[d])) for d in x}), drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]


def against_first(results):
    """Each row's mean KLD against the first one's, in pairs; and whether the interval leaves out zero."""
    first = results[0]
    for name, result in results[1:]:
        mean, low, high = paired(result, first[1])
        real = "" if low <= 0 <= high else ", a real difference"
        print(f"- {name} against {first[0]}: {mean:+.1f} % [{low:+.1f}, {high:+.1f}]{real}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--winnow", default="build/release/cli/winnow")
    p.add_argument("--data", default="data")
    p.add_argument("--out", required=True)
    p.add_argument("--windows", type=int, default=32)
    p.add_argument("--only", choices=["uniform", "graded"])
    b = Bench(p.parse_args())
    b.calibrate()
    for weights in WEIGHTS:
        for budget in BUDGETS:
            print(f"\n### {budget} kept, weights {weights}\n")
            print("| | all | " + " | ".join(DOMAINS) + " | same best token, % | perplexity ratio | misrouted, % |")
            print("|---" * (len(DOMAINS) + 5) + "|", flush=True)
            results = []
            if b.args.only != "graded":
                results += [(c, lambda c=c: b.uniform(weights, budget, c)) for c in CRITERIA]
            if b.args.only != "uniform":
                high, both = GRADED[budget]
                results += [(f"graded, reap: {high} + {both - high} of 2 bits", lambda: b.graded(weights, budget))]
            for i, (name, make) in enumerate(results):
                results[i] = (name, make())
                print(row(*results[i]), flush=True)
            print()
            against_first(results)


if __name__ == "__main__":
    main()
