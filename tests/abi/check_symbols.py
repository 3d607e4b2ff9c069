"""Checks that the libraries export every function that programs and plug-ins link, and nothing else.

    check_symbols.py FOLDER NAME=FILE...

FOLDER is the one of this script, with its tables:

    functions.tsv  every function of the headers, and the library that has it
    own.tsv        what is exported beyond that: Heddle's own functions
    clients.tsv    what programs of each kind really link, from whichever library
    not_yet.txt    names that are still to come; one that is exported after all is an error too,
                   so the list only shrinks

and NAME=FILE each library that was built. Entry points of plug-ins are those of the list of
backends, builders of ops of our own those of ggml's headers.
"""

import csv
import pathlib
import re
import subprocess
import sys


def exported(path):
    """Names of the symbols that a shared library defines."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", path], check=True, capture_output=True, text=True
    )
    return {line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()}


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def entry_points():
    """Library and symbol: what each plug-in of the list of backends exports so that it can be loaded or linked."""
    path = pathlib.Path(__file__).resolve().parents[2] / "src" / "backends" / "list.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        name, loaded, registration = (line.split("|") + ["", ""])[:3]
        if line.startswith("#") or loaded.strip() == "built-in" or registration.strip() in ("", "-"):
            continue
        for symbol in ("ggml_backend_init", registration.strip()):
            yield {"library": f"ggml-{name.strip()}", "symbol": symbol}


def own_builders(known):
    """Functions of ggml's headers that ggml has not: builders of ops of our own."""
    root = pathlib.Path(__file__).resolve().parents[2]
    for header in sorted((root / "include" / "ggml").glob("ops_*.h")):
        for symbol in re.findall(r"GGML_API [^;(]*?\b(ggml_\w+)\(", header.read_text(encoding="utf-8")):
            if symbol not in known:
                yield {"library": "ggml-base", "symbol": symbol}


def main():
    folder = pathlib.Path(sys.argv[1])
    not_yet = set((folder / "not_yet.txt").read_text(encoding="utf-8").split())
    symbols = {}
    for library in sys.argv[2:]:
        name, _, path = library.partition("=")
        symbols[name] = exported(path)
    everywhere = set().union(*symbols.values())

    wrong, checked, left_out = [], 0, set()
    meant = {name: set() for name in symbols}
    listed = [*rows(folder / "functions.tsv"), *rows(folder / "own.tsv"), *entry_points()]
    listed += own_builders({row["symbol"] for row in listed})
    for row in listed:
        library, symbol = row["library"], row["symbol"]
        if library not in symbols:
            left_out.add(library)
            continue
        checked += 1
        meant[library].add(symbol)
        is_there = symbol in symbols[library]
        if is_there and symbol in not_yet:
            wrong.append(f"{symbol} is there now: take it off the list")
        elif not is_there and symbol not in not_yet:
            wrong.append(f"{library} does not export {symbol}")
    for library, names in symbols.items():
        wrong += [f"{library} exports {name}, which no table has" for name in sorted(names - meant[library])]
    for row in rows(folder / "clients.tsv"):
        checked += 1
        if row["symbol"] not in everywhere | not_yet:
            wrong.append(f"no library exports {row['symbol']}, linked by {row['linked by']}")

    if wrong:
        print("\n".join(wrong))
        return 1
    left_out.discard("-")  # defined in headers
    print(f"{', '.join(symbols)}: {checked} names looked up, {len(not_yet)} still to come")
    if left_out:
        print(f"not built: {', '.join(sorted(left_out))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
