"""Files written here are read by the Python package `gguf`, and the reverse.

    python_roundtrip_test.py WRITE_SAMPLE PRINT_SAMPLE PACKAGE_DIR

Installs the package into PACKAGE_DIR if this Python does not have it. Ends with 77 where that cannot be
done: the test is then skipped.
"""

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(sys.argv[3])
try:
    import gguf
    import numpy
except ImportError:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", sys.argv[3], "gguf"]
    if subprocess.run(pip, check=False).returncode != 0:
        print("skipped: the package gguf can neither be imported nor installed")
        sys.exit(77)
    importlib.invalidate_caches()
    import gguf
    import numpy

TYPE_NAMES = {
    gguf.GGUFValueType.UINT8: "u8",
    gguf.GGUFValueType.INT8: "i8",
    gguf.GGUFValueType.UINT16: "u16",
    gguf.GGUFValueType.INT16: "i16",
    gguf.GGUFValueType.UINT32: "u32",
    gguf.GGUFValueType.INT32: "i32",
    gguf.GGUFValueType.UINT64: "u64",
    gguf.GGUFValueType.INT64: "i64",
    gguf.GGUFValueType.FLOAT32: "f32",
    gguf.GGUFValueType.FLOAT64: "f64",
    gguf.GGUFValueType.BOOL: "bool",
    gguf.GGUFValueType.STRING: "str",
    gguf.GGUFValueType.ARRAY: "arr",
}


def expect_equal(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{what}: heddle says {ours!r}, the package {theirs!r}")


def view_of_package(path):
    """What the package finds in a file, in the form of print_sample."""
    reader = gguf.GGUFReader(path)
    header = {name: field for name, field in reader.fields.items() if name.startswith("GGUF.")}
    values = {
        name: {"type": TYPE_NAMES[field.types[0]], "value": field.contents()}
        for name, field in reader.fields.items()
        if name not in header
    }
    tensors = [
        {
            "name": tensor.name,
            "type": int(tensor.tensor_type),
            "shape": ([int(n) for n in tensor.shape] + [1, 1, 1, 1])[:4],
            "offset": int(tensor.data_offset),
            "data": tensor.data.tobytes().hex(),
        }
        for tensor in reader.tensors
    ]
    return {
        "version": int(header["GGUF.version"].contents()),
        "alignment": int(reader.alignment),
        "values": values,
        "tensors": tensors,
    }


def compare(path, print_sample):
    """Both sides must see the same in the file at `path`. Gives what they saw."""
    printed = subprocess.run([print_sample, path], check=True, capture_output=True, text=True)
    ours = json.loads(printed.stdout)
    theirs = view_of_package(path)
    expect_equal("version", ours["version"], theirs["version"])
    expect_equal("alignment", ours["alignment"], theirs["alignment"])
    expect_equal("keys", list(ours["values"]), list(theirs["values"]))
    for key, value in ours["values"].items():
        expect_equal(key, value, theirs["values"][key])
    expect_equal("number of tensors", len(ours["tensors"]), len(theirs["tensors"]))
    for our_tensor, their_tensor in zip(ours["tensors"], theirs["tensors"]):
        for field, value in our_tensor.items():
            expect_equal(f"{our_tensor['name']}: {field}", value, their_tensor[field])
    return ours


def write_with_package(path, alignment):
    writer = gguf.GGUFWriter(path, "sample")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint8("value.u8", 200)
    writer.add_int8("value.i8", -100)
    writer.add_uint16("value.u16", 60000)
    writer.add_int16("value.i16", -30000)
    writer.add_uint32("value.u32", 4000000000)
    writer.add_int32("value.i32", -2000000000)
    writer.add_float32("value.f32", 0.1)
    writer.add_uint64("value.u64", 18000000000000000000)
    writer.add_int64("value.i64", -9000000000000000000)
    writer.add_float64("value.f64", 0.1)
    writer.add_bool("value.bool", True)
    writer.add_string("value.str", "Grüße")
    writer.add_array("array.i32", [1, -2, 3])
    writer.add_array("array.f32", [0.5, -0.25])
    writer.add_array("array.bool", [True, False])
    writer.add_array("array.str", ["one", "", "three"])
    random = numpy.random.default_rng(1)
    rows = random.standard_normal((4, 64), dtype=numpy.float32)
    writer.add_tensor("vector", random.standard_normal(7, dtype=numpy.float32))
    writer.add_tensor("matrix", rows)
    writer.add_tensor("halves", rows.astype(numpy.float16))
    writer.add_tensor("integers", numpy.arange(24, dtype=numpy.int32).reshape(2, 3, 4))
    quantized = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blocks", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(write_sample, print_sample):
    with tempfile.TemporaryDirectory() as folder:
        for alignment in (None, 8, 64, 4096):
            path = str(Path(folder) / "ours.gguf")
            subprocess.run([write_sample, path] + ([str(alignment)] if alignment else []), check=True)
            seen = compare(path, print_sample)
            expect_equal("pairs", len(seen["values"]), 19 if alignment else 18)
            expect_equal("tensors", len(seen["tensors"]), 6)

            path = str(Path(folder) / "theirs.gguf")
            write_with_package(path, alignment)
            seen = compare(path, print_sample)
            expect_equal("a string", seen["values"]["value.str"]["value"], "Grüße")
            expect_equal("tensors", len(seen["tensors"]), 5)
    print("files go both ways")


if __name__ == "__main__":
    main(*sys.argv[1:3])
