"""Turns the tables of tests/abi into the list of functions that the doors `api` and `nulls` call.

A line for each function: HEDDLE_FUNCTION(ggml_add, "ctx", "a", "b"),. The names of the parameters tell
what a number stands for.
"""

import argparse
import csv
import pathlib
import re

LIBRARIES = {"ggml-base", "ggml", "ggml-cpu", "ggml-sim"}


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def parameter_names(parameters):
    """Names of the parameters; "" for those that have none."""
    if parameters.strip() in ("", "void"):
        return []
    names = []
    for parameter in parameters.split(","):
        words = re.findall(r"\w+", parameter.split("[")[0])
        named = len(words) > 1 and not parameter.strip().endswith("*")
        is_type = words and (words[-1].endswith("_t") or words[-1] in ("int", "float"))
        names.append(words[-1] if named and not is_type else "")
    return [name for name, text in zip(names, parameters.split(",")) if text.strip() != "..."]


def own_functions(tables, include):
    """Heddle's own functions, whose parameters stand in the headers alone."""
    for row in rows(tables / "own.tsv"):
        header = include / row["declared in"]
        if row["library"] not in LIBRARIES or not row["symbol"].startswith(("heddle_", "ggml_")):
            continue
        if not header.exists():
            header = include.parent / row["declared in"]
        text = header.read_text(encoding="utf-8") if header.exists() else ""
        found = re.search(rf"\b{row['symbol']}\(([^)]*)\);", text)
        if found:
            yield row["symbol"], found.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=pathlib.Path, required=True, help="folder of the tables")
    parser.add_argument("--include", type=pathlib.Path, required=True, help="folder of the headers")
    parser.add_argument("--left-out", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    left_out = {row["function"] for row in rows(arguments.left_out)}
    functions = [
        (row["name"], row["parameters"])
        for row in rows(arguments.tables / "functions.tsv")
        if row["library"] in LIBRARIES and row["linkage"] == "c"
    ]
    functions += own_functions(arguments.tables, arguments.include)
    unknown = left_out - {name for name, _ in functions} - {"ggml_backend_init"}
    if unknown:
        raise SystemExit(f"{arguments.left_out}: no such function: {', '.join(sorted(unknown))}")
    lines = []
    for name, parameters in functions:
        if name not in left_out:
            names = "".join(f', "{each}"' for each in parameter_names(parameters))
            lines.append(f"HEDDLE_FUNCTION({name}{names}),")
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
