#!/usr/bin/env python3
"""Adds an op as docs/add-an-op.md says, with scripts/new-op, in a copy of the tree: every list has it, the rules hold,
and every source that sees it compiles.

    new_op_test.py TREE COMPILER [--whole]

--whole also builds the program and lets it verify the op; that takes as long as a build does.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

WHOLE = "--whole" in sys.argv and not sys.argv.remove("--whole")
COMPILER = sys.argv.pop(2)
ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PARTS = ("src", "include", "tools", "bench", "examples", "tests", "docs", "scripts", "cmake")
FILES = (".clang-format", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md")
SEES_IT = ("src/ops/catalogue.cpp", "src/capi/ggml_ops_elementwise.cpp", "src/golden/builders.cpp",
           "src/backends/cpu/kernel_list.cpp", "src/backends/cpu/kernels/elementwise/smoothstep.cpp",
           "tools/heddle/reference/elementwise.cpp", "tools/heddle/generated_elementwise.cpp",
           "tools/heddle/bench/cases_rows.cpp", "tests/sched/fuzz/ops.cpp", "probe.cpp")
PROBE = """\
#include "heddle/heddle.hpp"
heddle::Tensor smooth(const heddle::Tensor& x) { return heddle::smoothstep(x); }
"""


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


class ANewOp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._directory = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls._directory.name)
        for part in PARTS:
            shutil.copytree(ROOT / part, cls.root / part, ignore=shutil.ignore_patterns("__pycache__", "data"))
        for name in FILES:
            shutil.copy(ROOT / name, cls.root / name)
        cls.status, cls.output = run(sys.executable, cls.root / "scripts" / "new-op", "SMOOTHSTEP")
        (cls.root / "probe.cpp").write_text(PROBE)

    @classmethod
    def tearDownClass(cls):
        cls._directory.cleanup()

    def scan(self, script, output, pattern):
        files = "|".join(str(path) for path in sorted(self.root.glob(pattern)) if not path.name.endswith("_test.cpp"))
        to = self.root / "generated" / output
        to.parent.mkdir(parents=True, exist_ok=True)
        status, said = run("cmake", f"-DFILES={files}", f"-DOUTPUT={to}", "-P",
                           str(self.root / "cmake" / "scan" / f"{script}.cmake"))
        self.assertEqual(status, 0, said)
        return to.read_text()

    def test_is_written_by_the_script_which_says_what_is_left_to_do(self):
        self.assertEqual(self.status, 0, self.output)
        self.assertIn("stands in 10 files, 13 places", self.output)
        self.assertIn("src/backends/cpu/kernels/elementwise/smoothstep.cpp  the kernel", self.output)

    def test_keeps_the_rules(self):
        status, said = run(sys.executable, self.root / "scripts" / "check")
        self.assertEqual(status, 0, said)

    def test_is_in_every_list_and_compiles_wherever_it_is_seen(self):
        self.assertIn("ops::Smoothstep", self.scan("ops", "ops/every_op.hpp", "src/ops/*.hpp"))
        self.assertIn("&kSmoothstep,", self.scan("kernels", "backends/cpu/every_kernel.hpp", "src/backends/cpu/**/*.cpp"))
        self.assertIn("bind(ggml_smoothstep)", self.scan("builders", "golden/builders_of_ops.inc", "include/ggml/ops_*.h"))
        folders = ("generated", "src", "include", "include/plugin", "tools/heddle", ".")
        for source in SEES_IT:
            status, said = run(COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-warning-option",
                               "-Wno-restrict", "-Wno-deprecated-declarations", "-DHWY_COMPILE_ONLY_STATIC",
                               *(["-DHEDDLE_EXPLICIT_OPS"] if source != "probe.cpp" else []),
                               *(["-Wmissing-declarations"] if "capi" in source else []),
                               *[f"-I{self.root / folder}" for folder in folders], str(self.root / source))
            self.assertEqual(status, 0, f"{source}:\n{said}")

    def test_is_not_written_twice(self):
        status, said = run(sys.executable, self.root / "scripts" / "new-op", "smoothstep")
        self.assertEqual((status, said.strip()), (1, "new-op: there is an op SMOOTHSTEP already"))
        status, said = run(sys.executable, self.root / "scripts" / "new-op", "smooth step")
        self.assertEqual(status, 1)
        self.assertIn("'smooth step' is no name of an op", said)

    @unittest.skipUnless(WHOLE, "builds the program: with --whole")
    def test_is_computed_as_it_is_defined(self):
        build = self.root / "build"
        status, said = run("cmake", "--preset", "release", "-B", build, "-DHEDDLE_QUICK=ON", cwd=self.root)
        self.assertEqual(status, 0, said)
        status, said = run("cmake", "--build", build, "--target", "heddle")
        self.assertEqual(status, 0, said)
        status, said = run(build / "bin" / "heddle", "verify", "--op", "SMOOTHSTEP")
        self.assertEqual(status, 0, said)
        self.assertIn("SMOOTHSTEP", said)


if __name__ == "__main__":
    unittest.main()
