#!/usr/bin/env python3
"""Packs codebooks into the text that src/quant/codebook_texts.hpp holds.

Each argument is a table: one row per line, one whole number per element, rows in the order of their
index in a block. A value's rank among the values of its table is its code; the codes of a row, as
digits with element 0 the lowest, are the number of its point. The text lists, four points to a
hexadecimal digit, which points are rows.

usage: make_codebooks.py TABLE...
"""

import sys

LINE = 92


def points_of(rows):
    values = sorted({value for row in rows for value in row})
    codes = [[values.index(value) for value in row] for row in rows]
    points = [sum(code * len(values) ** j for j, code in enumerate(row)) for row in codes]
    if any(a >= b for a, b in zip(points, points[1:])):
        raise SystemExit("rows are not in ascending order of their points")
    return values, points, len(values) ** len(rows[0])


def packed(points, space):
    digits = [0] * ((space + 3) // 4)
    for point in points:
        digits[point // 4] |= 1 << point % 4
    return "".join(f"{digit:x}" for digit in digits)


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as table:
        rows = [[int(field) for field in line.split()] for line in table]
    values, points, space = points_of(rows)
    print(f"// {path}: {len(points)} rows, values {', '.join(map(str, values))}")
    text = packed(points, space)
    for start in range(0, len(text), LINE):
        print(f'    "{text[start:start + LINE]}"')
