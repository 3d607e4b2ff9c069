"""Turns the tables of tests/abi into the list of all functions for null_test.cpp.

Every exported C function is in it, but for those named here, each with the reason.
"""

import argparse
import csv
import pathlib

LIBRARIES = {"ggml-base", "ggml", "ggml-cpu"}

LEFT_OUT = {
    "ggml_abort": "ends the program by contract",
    "ggml_critical_section_end": "leaves a lock that the caller must have entered",
}


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def functions(tables):
    """Headers and names, those of functions.tsv and those of our own."""
    for row in rows(tables / "functions.tsv"):
        # What is defined in a header is compiled into its caller and is none of the library's.
        if row["linkage"] == "c" and row["library"] in LIBRARIES:
            yield row["header"], row["name"]
    for row in rows(tables / "own.tsv"):
        if row["library"] in LIBRARIES and not row["symbol"].startswith("_Z"):
            yield row["declared in"].removeprefix("src/"), row["symbol"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=pathlib.Path, required=True, help="folder of the tables")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    listed = list(functions(arguments.tables))
    unknown = set(LEFT_OUT) - {name for _, name in listed}
    if unknown:
        parser.error(f"left out, but not in the tables: {', '.join(sorted(unknown))}")
    lines = ['#include "tests/misuse/null_calls.hpp"']
    lines += [f'#include "{header}"' for header in sorted({header for header, _ in listed})]
    lines += ["namespace heddle::misuse {", "const std::vector<Function>& all_functions() {",
              "static const std::vector<Function> all = {"]
    for _, name in listed:
        if name in LEFT_OUT:
            lines.append(f"    // {name}: {LEFT_OUT[name]}")
        else:
            lines.append(f'    function_of("{name}", &::{name}),')
    lines += ["};", "return all;", "}", "}  // namespace heddle::misuse"]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
