"""Checks that the libraries export every function in functions.tsv.

Arguments: the table, the list of names that are still to come, then NAME=FILE for each library that
was built. A name on the list that is exported after all is an error too: the list only shrinks.
"""

import csv
import subprocess
import sys


def exported(path):
    """Names of the symbols that a shared library defines."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", path], check=True, capture_output=True, text=True
    )
    return {line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()}


def main():
    table, not_yet_file, *libraries = sys.argv[1:]
    with open(not_yet_file, encoding="utf-8") as file:
        not_yet = set(file.read().split())
    symbols = {}
    for library in libraries:
        name, _, path = library.partition("=")
        symbols[name] = exported(path)

    wrong = []
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            library = row["library"]
            if library not in symbols:
                continue
            is_there = row["symbol"] in symbols[library]
            if is_there and row["symbol"] in not_yet:
                wrong.append(f"{row['symbol']} is there now: take it off the list")
            elif not is_there and row["symbol"] not in not_yet:
                wrong.append(f"{library} does not export {row['symbol']}")
    print("\n".join(wrong) or f"{', '.join(symbols)}: all there, {len(not_yet)} still to come")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
