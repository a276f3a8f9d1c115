"""Decoding speed of builds against a first one, in turns: what bench_graded.py and bench_ghosts.py share.

A round runs every build twice, for 1 and for some tokens more, and takes the difference: of the clock, and of the
processor time in user mode, which says more where other programs run too. Speeds are medians of the rounds, ratios
the median of the rounds' own.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


class Pairs:
    def __init__(self, args):
        self.args = args
        os.makedirs(args.out, exist_ok=True)

    def path(self, *names):
        return os.path.join(self.args.out, *names)

    def winnow(self, *words):
        return subprocess.run([self.args.winnow, *words, "--quiet"], check=True, stdout=subprocess.PIPE).stdout

    def slice(self, name, **words):
        """A folder of random weights in K3's layer sizes (k3_slice.py)."""
        made = self.path(name)
        if not os.path.exists(os.path.join(made, "config.json")):
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "k3_slice.py")
            settings = [part for key, value in words.items() for part in ("--" + key.replace("_", "-"), str(value))]
            subprocess.run([sys.executable, script, made, "--mini", self.args.mini, *settings], check=True)
        return made

    def run(self, model, threads, tokens, *words):
        """Seconds by the clock and of the processor, and what --json told."""
        words = [self.args.winnow, "run", model, "-p", "The", "-n", str(tokens), "--ignore-eos", "--quiet", "--json",
                 "--threads", str(threads), *words]
        before = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
            told = child.stdout.read()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(words)}: exit code {child.returncode}")
        return (time.monotonic() - before, used.ru_utime), json.loads(told)

    def token_seconds(self, model, threads):
        """Of one token: by the clock, by the processors' time; and what the longer run told."""
        short, _ = self.run(model, threads, 1)
        long, told = self.run(model, threads, 1 + self.args.tokens)
        return [(b - a) / self.args.tokens for a, b in zip(short, long)], told

    def measure(self, models, threads):
        """By name: seconds of a token, [round][clock, processor], and what the last run told."""
        took, told = {name: [] for name in models}, {}
        for n in range(-1, self.args.rounds):  # the first round warms up
            for name, model in models.items():
                each, told[name] = self.token_seconds(model, threads)
                if n >= 0:
                    took[name].append(each)
        return took, told


def speed(took, name, by, size):
    """Tokens and GB a second."""
    median = statistics.median(seconds[by] for seconds in took[name])
    return f"{1 / median:.2f}, {size / median / 1e9:.1f}"


def ratio(took, first, name, by):
    """How much faster than the first one: the median of the rounds' own, and their range."""
    ratios = sorted(a[by] / b[by] for a, b in zip(took[first], took[name]))
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--winnow", default="build/release/cli/winnow")
    parser.add_argument("--mini", default="data/models/k3-mini")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=12)
    return parser
