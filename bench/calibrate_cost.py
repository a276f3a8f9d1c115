#!/usr/bin/env python3
"""What one winnow's calibration costs against another's: processor time of runs in pairs, one thread, and their ratio.

    bench/calibrate_cost.py OLD/winnow NEW/winnow [--model k3-mini] [--tokens 8192] [--rounds 15] [--new-options --means]

Both read the bundled corpus; what else the machine does changes the figures of a pair alike, more or less.
"""
import argparse
import os
import resource
import statistics
import subprocess
import tempfile


def seconds(winnow, model, corpus, tokens, out, options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([winnow, "calibrate", model, "--corpus", corpus, "-n", str(tokens), "-o", out, "--threads", "1", "--force",
                    "--quiet", *options], check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    data = os.environ.get("WINNOW_DATA", os.path.join(os.path.dirname(__file__), "..", "data"))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--model", default=os.path.join(data, "models", "k3-mini"))
    p.add_argument("--corpus", default=os.path.join(data, "corpora", "calib-mixed.jsonl"))
    p.add_argument("--tokens", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--new-options", nargs=argparse.REMAINDER, default=[], help="for the new one only; the last option here")
    a = p.parse_args()
    old, new = [], []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "sal.npz")
        for _ in range(a.rounds):
            old.append(seconds(a.old, a.model, a.corpus, a.tokens, out, []))
            new.append(seconds(a.new, a.model, a.corpus, a.tokens, out, a.new_options))
    print(f"old {statistics.median(old):.3f} s, new {statistics.median(new):.3f} s (medians of {a.rounds}); "
          f"new by old: {statistics.median(n / o for o, n in zip(old, new)):.3f} (median of pairs)")


if __name__ == "__main__":
    main()
