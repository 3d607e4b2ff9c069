#!/usr/bin/env python3
"""Breaks each rule of scripts/check on purpose, in a temporary copy of the tree, and expects to be told where,
which rule it was and what to do."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PARTS = ("src", "include", "tools", "bench", "examples", "tests", "docs", "scripts", "cmake")
FILES = (".clang-format", "CONTRIBUTING.md", "README.md")


def copy_tree(to):
    skipped = shutil.ignore_patterns("data", "__pycache__", "build*")
    for part in PARTS:
        shutil.copytree(ROOT / part, to / part, ignore=skipped)
    for name in FILES:
        shutil.copy(ROOT / name, to / name)


class Copy:
    def __init__(self):
        self._directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self._directory.name)
        copy_tree(self.root)

    def append(self, path, text):
        """Adds text to a file, which may be new; gives the number of its first line."""
        file = self.root / path
        before = file.read_text() if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before + text)
        return before.count("\n") + 1

    def replace(self, path, old, new):
        file = self.root / path
        text = file.read_text()
        assert old in text, (path, old)
        file.write_text(text.replace(old, new, 1))

    def add_to_glossary(self, word, instead):
        """A word that stands nowhere yet."""
        self.replace("CONTRIBUTING.md", "| not | but | counted in |\n|---|---|---|\n",
                     f"| not | but | counted in |\n|---|---|---|\n| `{word}` | {instead} | |\n")

    def check(self, *arguments):
        done = subprocess.run([sys.executable, self.root / "scripts" / "check", *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def close(self):
        self._directory.cleanup()


class AnUnchangedTree(unittest.TestCase):
    def test_keeps_all_rules(self):
        copy = Copy()
        self.addCleanup(copy.close)
        status, output = copy.check()
        self.assertEqual(status, 0, output)


class ABrokenRule(unittest.TestCase):
    """All rules are broken in one copy, each in files of its own, and found in one run."""

    @classmethod
    def setUpClass(cls):
        copy = cls.copy = Copy()
        cls.upward = copy.append("src/core/context.cpp", '#include "sched/scheduler.hpp"\n')
        cls.across = copy.append("src/backends/blas/device.cpp", '#include "backends/cpu/plan.hpp"\n')
        cls.for_tests = copy.append("src/quant/simple.cpp", '#include "quant/test_support.hpp"\n')
        copy.append("src/backends/newcomer/device.cpp", '#include "core/tensor.hpp"\n#include "runtime/buffer.hpp"\n')
        cls.common = copy.append("src/core/tensor.hpp", '#include "ggml/op_list.h"\n')
        cls.through = copy.append("src/runtime/stream.hpp", '#include "ops/roll.hpp"\n')
        cls.no_list = copy.append("scripts/check.d/op_list.txt", "src/quant/rows.hpp  made up\n")
        copy.append("src/stray/stray.cpp", "int stray;\n")
        copy.append("src/quant/rig.hpp", "#include <gmock/gmock.h>\n")
        copy.append("src/backends/newcomer/CMakeLists.txt", "heddle_c_library(ggml-newcomer SOURCES device.cpp)\n")
        cls.no_folder = copy.append("src/backends/list.txt",
                                    "absent | found | ggml_backend_absent_reg | - | - | no | luck | nothing\n")
        copy.append("src/quant/long.cpp", "int x;\n" * 401)
        copy.append("src/quant/endless.cpp", "int x;\n" * 801)
        copy.append("src/quant/long_function.cpp", "int long_one(int x) {\n" + "    ++x;\n" * 60 + "}\n")
        copy.append("src/quant/endless_function.cpp", "int endless_one(int x) {\n" + "    ++x;\n" * 120 + "}\n")
        cls.getenv = copy.append("src/runtime/status.cpp", 'const char* home = std::getenv("HOME");\n')
        cls.exit = copy.append("src/runtime/event.cpp", "void stop() { std::abort(); }\n")
        cls.print = copy.append("src/runtime/device.cpp", 'void say() { std::printf("hello"); }\n')
        cls.asm = copy.append("src/quant/traits.cpp", 'void wait() { asm volatile(""); }\n')
        copy.append("scripts/check.d/places.txt", " 1  machine  src/quant/lone.cpp  made up\n")
        copy.append("src/quant/lone.cpp", "auto y = _mm256_abs_epi8(x);\nauto z = _mm256_abs_epi8(y);\n")
        cls.path = copy.append("docs/tour.md", "It is in /home/" + "somebody/heddle.\n")
        cls.origin = copy.append("src/gguf/value.cpp", "// Written for issue " + "7.\n")
        cls.table = copy.append("src/gguf/reader.hpp", "// | a | b | | - | - |\n")
        cls.wide = copy.append("src/gguf/writer.hpp", "// " + "wide " * 25 + "\n")
        copy.replace(".clang-format", "ReflowComments: false", "ReflowComments: true")
        copy.add_to_glossary("quux beforehand", "prefetch")
        cls.word = copy.append("src/core/type.cpp", "// What comes next is quux\n// beforehand.\n")
        copy.add_to_glossary("quuxing", "barrier")
        copy.append("src/core/hash_set.hpp", "struct QuuxingPlace;\n")
        copy.append("src/core/type.hpp", "int enter_quuxing;\n")
        cls.status, cls.output = copy.check()

    @classmethod
    def tearDownClass(cls):
        cls.copy.close()

    def told(self, path, line, rule, *words):
        """A message begins with the place and the rule, and holds the words."""
        begin = f"{path}:{line}: [{rule}] "
        lines = [text for text in self.output.splitlines() if text.startswith(begin)]
        self.assertTrue(any(all(word in text for word in words) for text in lines),
                        f"nothing begins with '{begin}' and has {words}:\n{self.output}")

    def test_fails_the_run(self):
        self.assertEqual(self.status, 1, self.output)

    def test_of_layers_is_told_for_an_include_of_a_higher_layer(self):
        self.told("src/core/context.cpp", self.upward, "layers", "src/sched/scheduler.hpp", "move what both need")

    def test_of_layers_is_told_for_an_include_of_another_backend(self):
        self.told("src/backends/blas/device.cpp", self.across, "layers", "src/backends/cpu")

    def test_of_layers_is_told_for_an_include_of_test_code(self):
        self.told("src/quant/simple.cpp", self.for_tests, "layers", "which is for tests")

    def test_of_layers_is_told_for_test_code_of_another_name(self):
        self.told("src/quant/rig.hpp", 1, "layers", "includes GoogleTest", "test_support.hpp")

    def test_of_layers_is_told_for_a_backend_without_a_row(self):
        self.told("src/backends/newcomer/device.cpp", 2, "layers", "src/runtime/buffer.hpp")

    def test_of_layers_is_told_for_a_folder_that_is_no_layer(self):
        self.told("src/stray/stray.cpp", 1, "layers", "no layer", "give it a row")

    def test_of_the_op_list_is_told_for_a_common_header_that_includes_it(self):
        self.told("src/core/tensor.hpp", self.common, "op-list", "includes the list of ops", "let its sources include it")

    def test_of_the_op_list_is_told_for_an_include_through_a_descriptor(self):
        self.told("src/runtime/stream.hpp", self.through, "op-list", "through src/ops/roll.hpp")

    def test_of_the_op_list_is_told_for_a_row_that_needs_it_no_more(self):
        self.told("scripts/check.d/op_list.txt", self.no_list, "op-list", "src/quant/rows.hpp", "remove the row")

    def test_of_backends_is_told_for_a_folder_without_a_row(self):
        self.told("src/backends/newcomer/CMakeLists.txt", 1, "backends", "newcomer is no row", "add one")

    def test_of_backends_is_told_for_a_row_without_a_folder(self):
        self.told("src/backends/list.txt", self.no_folder, "backends", "no folder src/backends/absent")

    def test_of_backends_is_told_for_a_page_that_lags_behind(self):
        line = (self.copy.root / "docs/install.md").read_text().partition("<!-- backends: w")[0].count("\n") + 1
        self.told("docs/install.md", line, "backends", "table of backends", "--tighten")

    def test_of_file_size_is_told_above_the_aim(self):
        self.told("src/quant/long.cpp", 401, "file-size", "401 lines", "split it")

    def test_of_file_size_is_told_above_the_limit(self):
        self.told("src/quant/endless.cpp", 801, "file-size", "the limit is 800")

    def test_of_function_size_is_told_above_the_aim(self):
        self.told("src/quant/long_function.cpp", 1, "function-size", "long_one has 62 lines", "split it")

    def test_of_function_size_is_told_above_the_limit(self):
        self.told("src/quant/endless_function.cpp", 1, "function-size", "the limit is 120")

    def test_of_places_is_told_for_the_environment(self):
        self.told("src/runtime/status.cpp", self.getenv, "places", "'getenv'", "pass the value down")

    def test_of_places_is_told_for_an_end_of_the_process(self):
        self.told("src/runtime/event.cpp", self.exit, "places", "'exit'", "return a Result")

    def test_of_places_is_told_for_printing(self):
        self.told("src/runtime/device.cpp", self.print, "places", "'print'", "log_line()")

    def test_of_places_is_told_for_assembly(self):
        self.told("src/quant/traits.cpp", self.asm, "places", "'machine'", "src/simd")

    def test_of_places_is_told_for_one_more_intrinsic_than_there_was(self):
        self.told("src/quant/lone.cpp", 2, "places", "'machine' stands here 2 times, 1 allowed")

    def test_of_local_names_is_told_for_a_path_of_a_machine(self):
        self.told("docs/tour.md", self.path, "local", "leave it out")

    def test_of_local_names_is_told_for_the_number_of_a_task(self):
        self.told("src/gguf/value.cpp", self.origin, "local", "leave it out")

    def test_of_comments_is_told_for_a_reflowed_table(self):
        self.told("src/gguf/reader.hpp", self.table, "comments", "a row per line")

    def test_of_comments_is_told_for_wide_ones(self):
        self.told("src/gguf/writer.hpp", self.wide, "comments", "the limit is 100")

    def test_of_the_layout_is_told_where_comments_would_be_reflowed(self):
        self.told(".clang-format", 1, "clang-format", "ReflowComments: false")

    def test_of_words_is_told_for_a_phrase_over_two_lines(self):
        self.told("src/core/type.cpp", self.word, "words", "'quux beforehand' stands 1 times", "prefetch", "glossary")

    def test_of_words_is_told_for_a_part_of_a_name(self):
        self.assertRegex(self.output, r"\[words\] 'quuxing' stands 2 times in this and 1 more files: use the word")


class ACountThatFell(unittest.TestCase):
    def setUp(self):
        self.copy = Copy()
        self.addCleanup(self.copy.close)
        self.list = self.copy.root / "scripts/check.d/places.txt"

    def test_is_noted_and_written_down_when_asked(self):
        self.copy.append("scripts/check.d/places.txt", "12  machine  src/quant/lone.cpp  made up\n"
                                                       " 3  machine  src/quant/simple.cpp  made up\n")
        self.copy.append("src/quant/lone.cpp", "auto y = _mm256_abs_epi8(x);\n")
        status, output = self.copy.check("--only", "places")
        self.assertEqual(status, 0, output)
        self.assertIn("note: 2 rows of scripts/check.d/places.txt ask for less", output)
        self.assertEqual(self.copy.check("--only", "places", "--tighten")[0], 0)
        self.assertIn("\n 1  machine  src/quant/lone.cpp  made up\n", self.list.read_text())
        self.assertNotIn("src/quant/simple.cpp", self.list.read_text())


if __name__ == "__main__":
    unittest.main()
