#!/usr/bin/env python3
"""What a second bank of experts in 2 bits gives back at equal bytes, as Markdown tables (docs/fidelity.md).

  bench/two_banks.py --winnow build/release/cli/winnow --out DIR [--windows 16] [--rows reap,graded,...]

The bytes are those of the build that keeps the same number of whole experts in each layer; every other row is a plan that
`plan --size` solves for as many, built as an MLX folder whose other matrices stay as they are, and scored as a build. k3-mini
is calibrated and probed as in budgets.py, which DIR may be shared with. Finished results are kept: a stopped run goes on.
"""
import json
import os

from budgets import Budgets, arguments, tables
from fidelity import BUDGETS, WEIGHTS

# name: (words for plan, ghosts); None: the whole experts that all are compared with
BANKS = ["--mode", "graded", "--lo-bits", "2"]
ROWS = {
    "reap": None,
    "graded": (BANKS, "off"),
    "probe": (["--budget", "probe"], "off"),
    "probe, two banks": (["--budget", "probe", *BANKS], "off"),
    "proxy, two banks": (["--budget", "proxy", *BANKS], "off"),
    "probe, two banks, ghosts mean": (["--budget", "probe", *BANKS], "mean"),
}
MADE = ["--format", "mlx", "--rest-bits", "16"]


class TwoBanks(Budgets):
    def words(self, weights):
        return ["--weights", WEIGHTS[weights]] if WEIGHTS[weights] else []

    def room(self, weights, keep):
        """Bytes of the tensors of the build with so many whole experts in each layer."""
        told = self.winnow("plan", self.path("saliency.npz"), "--criterion", "reap", "--min-experts", "4", "--keep",
                           str(keep), "--model", self.model, *MADE, "--json", *self.words(weights))
        return json.loads(told)["build"]["out_tensor_bytes"]

    def row(self, weights, budget, name):
        if ROWS[name] is None:
            return super().row(weights, budget, "reap")
        words, ghosts = ROWS[name]
        keep = BUDGETS[budget]
        kept = f"banks-{weights}-{keep}-{name.replace(', ', '-').replace(' ', '-')}"
        if os.path.exists(self.path(kept + ".json")):
            return self.score(kept, self.model)
        plan = self.plan(kept, *words, "--size", str(self.room(weights, keep)), "--model", self.model, *MADE,
                         "--ghosts", ghosts, *self.words(weights))
        folder = self.path(kept)
        if not os.path.exists(folder):
            self.winnow("prune", self.model, "--plan", plan, *MADE, "--ghosts", ghosts, "-o", folder,
                        *(["--saliency", self.path("saliency.npz")] if ghosts == "mean" else []))
        return self.score(kept, folder, "--plan", plan)


def main():
    args = arguments(__doc__, ROWS, windows=16).parse_args()
    tables(TwoBanks(args), ROWS, args)


if __name__ == "__main__":
    main()
