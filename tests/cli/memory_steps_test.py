#!/usr/bin/env python3
"""Runs a model under `ulimit -v`, from hardly any memory to plenty: text or a sentence, always.

    memory_steps_test.py PROGRAM MODEL [--steps N] [--from MB] [--to MB]

A run is fine if it prints the text that it prints without a limit, or ends with status 1 and one line
that begins with "heddle". Below what the system needs to start a program it is the system that ends it.
"""

import argparse
import collections
import resource
import subprocess
import sys

MB = 1_000_000
PATIENCE = 120  # seconds; a run takes less than one


def outcome(words, megabytes=None):
    def limit():
        if megabytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (int(megabytes * MB), int(megabytes * MB)))

    try:
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE, preexec_fn=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "hang", ""
    except (OSError, subprocess.SubprocessError) as error:  # not even the program could be started
        return "loader", str(error)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode == 0:
        return "text", out
    if done.returncode == 1 and err.startswith("heddle") and err.count("\n") == 1:
        return "sentence", err.strip()
    if done.returncode == 127:  # of the loader alone
        return "loader", err.strip()
    # Constructors of the system's libraries run before the program begins and know no failure.
    before_main = not err or "terminate called without an active exception" in err
    if done.returncode < 0 and before_main and megabytes is not None and megabytes < 24:
        return "loader", f"signal {-done.returncode} before the program began"
    return "wrong", f"status {done.returncode}: {err.strip()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--from", type=int, default=20, dest="first")
    parser.add_argument("--to", type=int, default=2000, dest="last")
    options = parser.parse_args()
    words = [options.program, "run", options.model, "-p", "Once", "-n", "4", "-q", "--temperature", "0"]
    kind, expected = outcome(words)
    if kind != "text":
        sys.exit(f"without a limit: {kind}: {expected}")

    counts, sentences, failed = collections.Counter(), collections.Counter(), 0
    span = options.last - options.first
    for step in range(options.steps):
        # Closer together where memory is short: there more things fail.
        share = (step / max(1, options.steps - 1)) ** 2
        megabytes = round(options.first + span * share, 3)
        kind, said = outcome(words, megabytes)
        if kind == "text" and said != expected:
            kind, said = "wrong", f"another text: {said!r}"
        counts[kind] += 1
        if kind in ("sentence", "loader"):
            sentences[said] += 1
        if kind in ("wrong", "hang"):
            failed += 1
            print(f"{megabytes} MB: {kind}: {said}")
    for said, count in sentences.most_common():
        print(f"{count:5} x {said}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()), f"of {options.steps}")
    sys.exit(1 if failed else 0)


main()
