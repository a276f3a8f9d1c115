#!/usr/bin/env python3
"""What layer budgets and ghosts give back of what a cut costs, as Markdown tables (docs/fidelity.md).

  bench/budgets.py --winnow build/release/cli/winnow --out DIR [--windows 32] [--rows reap,share,...]

Calibrates k3-mini once on the bundled corpus, with means, and probes it, for plain builds and for ghosts. For every weighting and budget each row's plan is
scored against the whole model on held-out text (eval --masked --against, which agrees bit for bit with the build), and
compared with the first row in pairs of windows. Finished results are kept in DIR: a stopped run goes on.
"""
import argparse
import os

from fidelity import BUDGETS, DOMAINS, WEIGHTS, Bench, against_first, cell

# name: (words for plan, ghosts[, archive])
GHOSTS_PROBED = "saliency-ghosts.npz"
ROWS = {
    "reap": ([], "off"),
    "share": (["--criterion", "share"], "off"),
    "loo": (["--criterion", "loo"], "off"),
    "probe": (["--budget", "probe"], "off"),
    "proxy": (["--budget", "proxy"], "off"),
    "global raw": (["--budget", "global", "--raw"], "off"),
    "ghosts skip": ([], "skip"),
    "ghosts mean": ([], "mean"),
    "probe, ghosts skip": (["--budget", "probe"], "skip"),
    "probe, ghosts mean": (["--budget", "probe"], "mean"),
    "probe, share, ghosts mean": (["--budget", "probe", "--criterion", "share"], "mean"),
    "probe, loo, ghosts mean": (["--budget", "probe", "--criterion", "loo"], "mean"),
    "probe of ghosts, ghosts mean": (["--budget", "probe"], "mean", GHOSTS_PROBED),
    "proxy, ghosts mean": (["--budget", "proxy"], "mean"),
}


class Budgets(Bench):
    def calibrate(self):
        corpus = os.path.join(self.corpora, "calib-mixed.jsonl")
        if not os.path.exists(self.path("whole.npz")):
            self.winnow("calibrate", self.model, "--corpus", corpus, "--means", "-o", self.path("whole.npz"), "--work",
                        self.path("work"))
        for archive, ghosts in ("saliency.npz", "off"), (GHOSTS_PROBED, "mean"):
            if os.path.exists(self.path(archive)):
                continue
            self.winnow("probe", self.model, self.path("whole.npz"), "--corpus", corpus, "--keep", "75%,50%,25%",
                        "--criterion", "reap", "--ghosts", ghosts, "-o", self.path(archive), "--work", self.path("work"))

    def row(self, weights, budget, name):
        words, ghosts, archive = (*ROWS[name], "saliency.npz")[:3]
        keep = BUDGETS[budget]
        plan = f"{weights}-{keep}-{'-'.join(words).replace('--', '') or 'reap'}"
        if archive == GHOSTS_PROBED:
            plan += "-ghosts-probed"
        kept = f"{plan}-{ghosts}"
        if os.path.exists(self.path(kept + ".json")):
            return self.score(kept, self.model)
        words = words + ["--keep", str(keep)] + (["--weights", WEIGHTS[weights]] if WEIGHTS[weights] else [])
        eval_words = ["--masked", self.plan(plan, *words, archive=archive), "--ghosts", ghosts]
        if ghosts == "mean":
            eval_words += ["--saliency", self.path("saliency.npz")]
        return self.score(kept, self.model, *eval_words)


def line(name, result):
    domains = {d["domain"]: d for d in result["domains"]}
    all_ = result["overall"]
    return "| " + " | ".join([name, cell(all_), *(cell(domains[d]) for d in DOMAINS),
                              f"{100 * all_['argmax_agreement']:.1f}", f"{all_['ppl_ratio']:.4f}",
                              f"{100 * all_['ghosted']:.1f}" if "ghosted" in all_ else "",
                              "" if all_["misroute"] is None else f"{100 * all_['misroute']:.1f}"]) + " |"


def arguments(doc, rows, windows=32):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--winnow", default="build/release/cli/winnow")
    p.add_argument("--data", default="data")
    p.add_argument("--out", required=True)
    p.add_argument("--windows", type=int, default=windows)
    p.add_argument("--rows", default=",".join(rows), help="names of rows, with commas between them ('+' for a comma in one)")
    p.add_argument("--weights", default="mixed,en+code")
    p.add_argument("--kept", default="71,50,36", help="per cents of the experts")
    return p


def tables(b, known, args):
    """A table for each weighting and size: a line a row, and each row against the first."""
    b.calibrate()
    rows = list(known) if args.rows == ",".join(known) else [name.replace("+", ",") for name in args.rows.split(",")]
    for weights in args.weights.split(","):
        for budget in (f"{percent} %" for percent in args.kept.split(",")):
            print(f"\n### {budget} kept, weights {weights}\n")
            print("| | all | " + " | ".join(DOMAINS) +
                  " | same best token, % | perplexity ratio | to ghosts, % | misrouted, % |")
            print("|---" * (len(DOMAINS) + 6) + "|", flush=True)
            results = []
            for name in rows:
                results.append((name, b.row(weights, budget, name)))
                print(line(*results[-1]), flush=True)
            print()
            against_first(results)


def main():
    args = arguments(__doc__, ROWS).parse_args()
    tables(Budgets(args), ROWS, args)


if __name__ == "__main__":
    main()
