"""Turns the tables in this folder into a source file that compiles only if the headers agree.

Every row becomes a line: sizes, offsets, alignments and constants a static assertion, every type and
function a second declaration, which the compiler compares with that of the header.
"""

import argparse
import csv
import pathlib

CXX_HEADERS = {"ggml-cpp.h"}


class Writer:
    """Collects the lines of a source file in C or C++."""

    def __init__(self, tables, language):
        self.tables = tables
        self.cxx = language == "c++"
        self.lines = []

    def rows(self, table):
        """The rows of a table that hold for this language."""
        with open(self.tables / table, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if self.cxx or row["header"] not in CXX_HEADERS:
                    yield row

    def add(self, line):
        self.lines.append(line)

    def expect(self, condition, what):
        keyword = "static_assert" if self.cxx else "_Static_assert"
        self.add(f'{keyword}({condition}, "{what}");')

    def includes(self):
        headers = {row["header"] for row in self.rows("functions.tsv")}
        headers |= {row["header"] for row in self.rows("structs.tsv")}
        self.add("#include <stddef.h>")
        for header in sorted(headers):
            self.add(f'#include "{header}"')

    def enums(self):
        for row in self.rows("enums.tsv"):
            constant, value = row["constant"], row["value"]
            at_least = value.endswith("+")  # Heddle may have more of its own, after ggml's
            self.expect(f"(int){constant} {'>=' if at_least else '=='} {value.rstrip('+')}", f"{constant} is {value}")

    def macros(self):
        for row in self.rows("macros.tsv"):
            macro, kind, value = row["macro"], row["kind"], row["value"]
            if kind == "integer":
                self.expect(f"({macro}) == ({value})", f"{macro} is {value}")
            elif self.cxx and kind in ("constant", "float"):
                self.expect(f"{macro} == {value}", f"{macro} is {value}")
            elif kind == "text":
                self.expect(f"sizeof({macro}) == sizeof({value})", f"length of {macro}")
                for i, letter in enumerate(value.strip('"') if self.cxx else ""):
                    self.expect(f"{macro}[{i}] == '{letter}'", f"letter {i} of {macro}")

    def structs(self):
        """Layouts hold where pointers and size_t have 64 bits, which is where plug-ins exist."""
        self.add("#if UINTPTR_MAX == 0xFFFFFFFFFFFFFFFF")
        for row in self.rows("structs.tsv"):
            name, field = row["struct"], row["field"]
            tag = "" if row["kind"] == "typedef" else "struct "
            outer, _, path = name.partition(".")
            outer = tag + outer
            member = ".".join(part for part in (path, field) if part and part != "-")
            whole = f"(({outer}*)0)->{member}" if member else outer
            self.expect(f"sizeof({whole}) == {row['size']}", f"size of {outer} {member}".rstrip())
            if row["alignment"] != "-":
                what = f"alignment of {name}"
                self.expect(f"__alignof__({whole}) == {row['alignment']}", what)
            if field != "-":
                base = f"offsetof({outer}, {path})" if path else "0"
                what = f"offset of {name} {field}"
                self.expect(f"offsetof({outer}, {member}) == {base} + {row['offset']}", what)
        self.add("#endif")

    def typedefs(self):
        for row in self.rows("typedefs.tsv"):
            name, definition = row["name"], row["definition"]
            self.expect(f"sizeof({name}) > 0", f"{name} is declared")
            if "(*)" in definition:
                declarator = definition.replace("(*)", f"(*{name})", 1)
            elif definition.endswith("]"):
                element, _, extent = definition.partition("[")
                declarator = f"{element} {name}[{extent}"
            else:
                declarator = f"{definition} {name}"
            self.add(f"typedef {declarator};")

    def functions(self):
        if self.cxx:
            self.add('extern "C" {')
        checks = []
        for number, row in enumerate(self.rows("functions.tsv")):
            result, name, parameters = row["return"], row["name"], row["parameters"]
            in_header = row["library"] == "-"
            if row["linkage"] == "c" and not in_header:
                self.expect(f"sizeof(&{name}) > 0", f"{name} is declared")
                self.add(f"{result} {name}({parameters});")
            elif row["linkage"] == "c" or self.cxx:
                # Defined in the header, or overloaded: a pointer of the exact type has to fit.
                check = f"check_{number}_{name}"
                self.add(f"{result} (*{check}(void))({parameters});")
                checks.append(f"{result} (*{check}(void))({parameters}) {{ return {name}; }}")
        self.lines += checks
        if self.cxx:
            self.add("}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=pathlib.Path, required=True, help="folder of the tables")
    parser.add_argument("--language", choices=("c", "c++"), required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    writer = Writer(arguments.tables, arguments.language)
    writer.includes()
    writer.enums()
    writer.macros()
    writer.structs()
    writer.typedefs()
    writer.functions()
    arguments.output.write_text("\n".join(writer.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
