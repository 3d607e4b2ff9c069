#!/usr/bin/env python3
"""Prints the tables of tools/heddle/model/unicode.cpp: where letters and numbers lie.

The tables are those of this Python's Unicode data. usage: make_unicode.py | clang-format
"""

import unicodedata


def ranges(kind):
    """First and last code of every run of characters whose category begins with `kind`."""
    found = []
    for code in range(0x110000):
        if unicodedata.category(chr(code))[0] != kind:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


for name, kind in (("kLetters", "L"), ("kNumbers", "N")):
    print(f"// Unicode {unicodedata.unidata_version}, category {kind}")
    rows = ", ".join(f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges(kind))
    print(f"constexpr Range {name}[] = {{{rows}}};\n")
