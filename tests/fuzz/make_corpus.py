"""Writes the seeds of gguf_fuzz: small model files, each with another feature.

    make_corpus.py FOLDER
"""

import struct
import sys
from pathlib import Path

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)


def string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, payload):
    return string(key) + struct.pack("<i", kind) + payload


def array(key, kind, count, payload):
    return pair(key, ARR, struct.pack("<iQ", kind, count) + payload)


def tensor(name, extents, kind, offset):
    return (
        string(name)
        + struct.pack("<I", len(extents))
        + b"".join(struct.pack("<q", n) for n in extents)
        + struct.pack("<iQ", kind, offset)
    )


def model(pairs=(), tensors=(), data=b"", alignment=32, version=3):
    head = b"GGUF" + struct.pack("<Iqq", version, len(tensors), len(pairs))
    head += b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


NUMBERS = [
    pair("u8", U8, b"\1"),
    pair("i8", I8, b"\xff"),
    pair("u16", U16, bytes(2)),
    pair("i16", I16, bytes(2)),
    pair("u32", U32, bytes(4)),
    pair("i32", I32, bytes(4)),
    pair("f32", F32, struct.pack("<f", 1.5)),
    pair("bool", BOOL, b"\2"),
    pair("u64", U64, bytes(8)),
    pair("i64", I64, bytes(8)),
    pair("f64", F64, struct.pack("<d", 0.1)),
]

SEEDS = {
    "empty": model(),
    "version2": model(version=2),
    "numbers": model(NUMBERS),
    "strings": model([pair("s", STR, string("text")), pair("nul", STR, string(b"a\0b"))]),
    "arrays": model(
        [
            array("words", STR, 3, string("a") + string("") + string("b")),
            array("none", F64, 0, b""),
            array("truths", BOOL, 2, b"\0\7"),
            array("shorts", I16, 3, bytes(6)),
        ]
    ),
    "tensors": model(
        tensors=[
            tensor("a", [8], 0, 0),
            tensor("b", [32, 2], 8, 32),
            tensor("c", [], 1, 128),
            tensor("d", [256, 1, 1, 1], 12, 160),
        ],
        data=bytes(320),
    ),
    "zero": model(tensors=[tensor("a", [4, 0], 0, 0), tensor("", [0, 3, 0, 1], 1, 0)]),
    "aligned1": model(
        [pair("general.alignment", U32, struct.pack("<I", 1))],
        [tensor("a", [3], 24, 0), tensor("b", [1], 28, 3)],
        bytes(11),
        alignment=1,
    ),
    "aligned64": model(
        [pair("general.alignment", U32, struct.pack("<I", 64)), *NUMBERS],
        [tensor("a", [3], 24, 0), tensor("b", [1], 28, 64)],
        bytes(128),
        alignment=64,
    ),
    "unknown_type": model(tensors=[tensor("a", [1], 0x47000000, 0)], data=bytes(32)),
    "huge": model(
        tensors=[
            tensor("a", [0x7FFFFFFFFFFFFFC0], 24, 0),
            tensor("b", [0x7FFFFFFFFFFFFFC0], 24, 0x7FFFFFFFFFFFFFC0),
        ]
    ),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS.items():
        (folder / f"{name}.gguf").write_bytes(content)
