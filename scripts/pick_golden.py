#!/usr/bin/env python3
"""Copies a subset of golden case files that fits into a given size.

    pick_golden.py FROM TO [--total BYTES]

A subset keeps at least two cases of each file and prefers small cases: it takes the smallest cases of
all files together, round by round, until the total is reached. Chosen cases keep all their keys and
tensors and are numbered anew; the key `picked_from` has their old numbers.

The files are taken apart here, byte for byte, and not with a GGUF package: these refuse files with
element types newer than themselves, and nothing needs to be known of the types to copy them.
"""

import argparse
import pathlib
import re
import struct

ALIGNMENT = 32
VALUE_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
UINT32, INT32, STRING, ARRAY = 4, 5, 8, 9
CASE = re.compile(r"c(\d+)\.(.*)", re.DOTALL)


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def bytes(self, size):
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.bytes(struct.calcsize(form)))[0]

    def string(self):
        return self.bytes(self.number("Q")).decode()

    def skip_value(self, kind):
        if kind == STRING:
            self.bytes(self.number("Q"))
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element in VALUE_SIZES:
                self.bytes(VALUE_SIZES[element] * count)
            else:
                for _ in range(count):
                    self.skip_value(element)
        else:
            self.bytes(VALUE_SIZES[kind])

    def raw_value(self, kind):
        begin = self.at
        self.skip_value(kind)
        return self.data[begin : self.at]


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def packed_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


class GoldenFile:
    """Keys and tensors as bytes, by name, and how large each case is."""

    def __init__(self, path):
        self.name = path.name
        reader = Reader(path.read_bytes())
        magic, version = reader.bytes(4), reader.number("I")
        if magic != b"GGUF" or version != 3:
            raise SystemExit(f"{path} is no GGUF file of version 3")
        tensor_count, key_count = reader.number("Q"), reader.number("Q")
        self.keys = {}
        for _ in range(key_count):
            name, kind = reader.string(), reader.number("I")
            self.keys[name] = (kind, reader.raw_value(kind))
        headers = []
        for _ in range(tensor_count):
            name, dims = reader.string(), reader.number("I")
            shape = reader.bytes(8 * dims + 4)
            headers.append((name, struct.pack("<I", dims) + shape, reader.number("Q")))
        start = reader.at + -reader.at % ALIGNMENT
        ends = sorted(offset for _, _, offset in headers) + [len(reader.data) - start]
        self.tensors = {}
        for name, header, offset in headers:
            end = next(e for e in ends if e > offset)
            self.tensors[name] = (header, reader.data[start + offset : start + end])
        self.case_sizes = self._case_sizes(struct.unpack("<I", self.keys["n_cases"][1])[0])

    def _case_sizes(self, count):
        sizes = [0] * count
        for entries in (self.keys, self.tensors):
            for name, (head, body) in entries.items():
                if match := CASE.match(name):
                    head_size = head if isinstance(head, int) else len(head)
                    sizes[int(match[1])] += len(name) + 12 + head_size + len(body)
        return sizes

    def subset(self, cases):
        """The bytes of a file with these cases only."""
        numbers = {case: i for i, case in enumerate(cases)}

        def renamed(name):
            match = CASE.match(name)
            if not match:
                return name
            case = int(match[1])
            return f"c{numbers[case]}.{match[2]}" if case in numbers else None

        keys = {new: value for old, value in self.keys.items() if (new := renamed(old))}
        keys["n_cases"] = (UINT32, struct.pack("<I", len(cases)))
        keys["picked_from"] = (
            ARRAY,
            struct.pack("<IQ", INT32, len(cases)) + struct.pack(f"<{len(cases)}i", *cases),
        )
        head, infos, data = [], [], []
        for name, (kind, value) in keys.items():
            head.append(packed_string(name) + struct.pack("<I", kind) + value)
        offset = 0
        for old, (header, content) in self.tensors.items():
            if new := renamed(old):
                infos.append(packed_string(new) + header + struct.pack("<Q", offset))
                data.append(padded(content))
                offset += len(data[-1])
        start = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
        return padded(start + b"".join(head) + b"".join(infos)) + b"".join(data)


def pick(files, total):
    """Cases of each file, in their old order."""
    chosen = {file.name: [] for file in files}
    spent = 0
    candidates = []
    for file in files:
        by_size = sorted(range(len(file.case_sizes)), key=lambda case: file.case_sizes[case])
        for rank, case in enumerate(by_size):
            # The two smallest of each file come first; after them the smallest of all.
            candidates.append((0 if rank < 2 else 1, file.case_sizes[case], file.name, case))
    for _, size, name, case in sorted(candidates):
        if spent + size <= total:
            spent += size
            chosen[name].append(case)
    return {name: sorted(cases) for name, cases in chosen.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", metavar="FROM", type=pathlib.Path, help="directory with all cases")
    parser.add_argument("target", metavar="TO", type=pathlib.Path, help="directory to write")
    parser.add_argument("--total", type=int, default=9_000_000, help="bytes at most, headers aside")
    arguments = parser.parse_args()

    files = [GoldenFile(path) for path in sorted(arguments.source.glob("*.gguf"))]
    chosen = pick(files, arguments.total)
    arguments.target.mkdir(parents=True, exist_ok=True)
    written = 0
    for file in files:
        if chosen[file.name]:
            data = file.subset(chosen[file.name])
            (arguments.target / file.name).write_bytes(data)
            written += len(data)
    count = sum(len(cases) for cases in chosen.values())
    print(f"{count} of {sum(len(f.case_sizes) for f in files)} cases, {written} bytes")


if __name__ == "__main__":
    main()
