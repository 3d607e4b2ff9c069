#!/usr/bin/env python3
"""Checks every code block and every link of the documentation.

    check_docs.py --source DIR --build DIR --cxx COMPILER --cc COMPILER [PAGE...]

What a block is stands behind its fence:

    cpp, c             a whole file: compiled; with main() also linked and run
    cpp fragment, ...  statements: compiled inside a function, after the declarations in
                       fragment.hpp or fragment.h beside this script
    cpp from=FILE      a part of a file of the project, in which a line `...` leaves some out
    sh                 lines that begin with `$ ` are run, in a copy of the project's root with the
                       program on the path; the lines after a command are what it prints
    sh static          commands that are not run: make targets and options of heddle must exist
    text               anything that is no code
    text output        what the program in the block before prints
    text of=SCRIPT     what a script of the project prints that gets the build directory

Where output is compared, spacing does not count, nor do numbers with a point or a unit of time, speed or
size; whole numbers must be the same. `...` stands for any text, on a line of its own for any lines. Other languages (json, cmake from=FILE) are checked likewise.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
RUNNABLE = {"heddle", "build/bin/heddle"}
KNOWN_PROGRAMS = {"git", "cd", "make", "cmake", "ctest", "python3", "pip", "tar", "HEDDLE", "sudo",
                  "export", "c++"}
TIME_LIMIT = 120


class Block:
    def __init__(self, page, line, info, text):
        self.page, self.line, self.text = page, line, text
        words = info.split()
        self.language = words[0] if words else ""
        self.words = {word for word in words[1:] if "=" not in word}
        self.values = dict(word.split("=", 1) for word in words[1:] if "=" in word)

    def where(self):
        return f"{self.page}:{self.line}"


def read_page(root, page):
    """The blocks of a page, and what is wrong with its form."""
    blocks, problems = [], []
    lines = (root / page).read_text(encoding="utf-8").split("\n")
    inside, start, info, body = False, 0, "", []
    in_list = False
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line.strip()) if line.lstrip().startswith("```") else None
        if fence and not inside:
            inside, start, info, body = True, number, fence[1], []
        elif fence:
            inside = False
            blocks.append(Block(page, start, info, "\n".join(body) + "\n"))
        elif inside:
            body.append(line)
        else:
            if re.match(r"\s*([-*]|\d+\.)\s", line):
                in_list = True
            elif line and not line.startswith(" "):
                in_list = False
            before = lines[number - 2] if number > 1 else ""
            if line.startswith("    ") and line.strip() and not before.strip() and not in_list:
                problems.append(f"{page}:{number}: an indented block; fence it and say what it is")
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if "://" in target or target.startswith("mailto:"):
                    continue
                if not ((root / page).parent / target).exists():
                    problems.append(f"{page}:{number}: links to {target}, which is not there")
    if inside:
        problems.append(f"{page}:{start}: the block does not end")
    return blocks, problems


NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
# Behind what another machine, or another moment, makes of a number.
UNIT = re.compile(r" ?(%|[KMGT]?i?B\b|[num\u00b5]?s\b|/s\b|[GT]?FLOP)")


def pattern_of(line):
    """A line of output as a pattern: spacing does not count, and of numbers only those that are whole."""
    parts = []
    for part in line.strip().split("..."):
        part = re.sub(r"\s+", " ", part)
        pieces = re.split(f"({NUMBER})", part)
        made = ""
        for i, piece in enumerate(pieces):
            is_whole = i % 2 and piece.isdigit() and not UNIT.match(pieces[i + 1])
            made += NUMBER if i % 2 and not is_whole else re.escape(piece)
        parts.append(made)
    return re.compile(".*".join(parts) + r"\Z")


def compare_output(expected, actual):
    """Why `actual` is not what the page says; None if it is."""
    wanted = [line for line in expected.split("\n") if line.strip()]
    given = [re.sub(r"\s+", " ", line.strip()) for line in actual.split("\n") if line.strip()]
    at, skipping = 0, False
    for line in wanted:
        if line.strip() == "...":
            skipping = True
            continue
        pattern = pattern_of(line)
        while True:
            if at == len(given):
                return f"the line '{line.strip()}' is not printed; the output is\n{actual}"
            at += 1
            if pattern.match(given[at - 1]):
                skipping = False
                break
            if not skipping:
                return f"prints '{given[at - 1]}' where the page says '{line.strip()}'"
    if at < len(given) and not skipping:
        return f"prints '{given[at]}', which the page does not say"
    return None


class Checker:
    def __init__(self, options):
        self.options = options
        self.root, self.build = options.source.resolve(), options.build.resolve()
        self.work = self.build / "docs-check"
        self.helps = {}

    # ---- code

    def compile(self, block, code, extra, output=None):
        is_cpp = block.language == "cpp"
        name = block.page.replace("/", "_").replace(".", "_") + f"_{block.line}"
        source = self.work / (name + (".cpp" if is_cpp else ".c"))
        source.write_text(code, encoding="utf-8")
        command = [self.options.cxx, "-std=c++20"] if is_cpp else [self.options.cc, "-std=c11"]
        command += ["-Wall", "-Wextra", "-Werror", *extra, "-I", str(self.root / "include")]
        command += ["-I", str(HERE), str(source)]
        if output is None:
            command += ["-fsyntax-only"]
        else:
            libraries = self.build / "lib"
            command += ["-o", str(output), "-L", str(libraries), f"-Wl,-rpath,{libraries}"]
            command += ["-lggml", "-lggml-base", "-lggml-cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
        if done.returncode != 0:
            return "does not compile:\n" + done.stderr.replace(str(source), block.where())
        return None

    def check_quote(self, block):
        path = self.root / block.values["from"]
        if not path.exists():
            return f"is from {block.values['from']}, which is not there"
        def squeeze(text):
            return re.sub(r"\s+", " ", text).strip()
        content, at = squeeze(path.read_text(encoding="utf-8")), 0
        for part in re.split(r"^\s*\.\.\.\s*$", block.text, flags=re.MULTILINE):
            found = content.find(squeeze(part), at)
            if found < 0:
                return f"is not what stands in {block.values['from']}"
            at = found + len(squeeze(part))
        return None

    def check_code(self, block, following):
        if "from" in block.values:
            return self.check_quote(block)
        if "fragment" in block.words:
            header = "fragment.hpp" if block.language == "cpp" else "fragment.h"
            begin, end = (("heddle::Result<> fragment() {", "return heddle::ok(); }")
                          if block.language == "cpp" else ("int fragment(void) {", "return 0; }"))
            includes = "".join(l + "\n" for l in block.text.split("\n") if l.startswith("#include"))
            rest = "".join(("" if l.startswith("#include") else l) + "\n"
                           for l in block.text.split("\n"))
            code = (f'{includes}#include "{header}"\n{begin}\n#line {block.line + 1} '
                    f'"{block.page}"\n{rest}\n{end}\n')
            return self.compile(block, code, ["-Wno-unused"])
        if not re.search(r"\bint main\(", block.text):
            return self.compile(block, block.text, ["-Wno-unused"])
        program = self.work / (block.page.replace("/", "_") + f"_{block.line}.program")
        problem = self.compile(block, block.text, [], program)
        if problem:
            return problem
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=TIME_LIMIT,
                              cwd=self.directory(block), env=self.environment())
        if done.returncode != 0:
            return f"ends with {done.returncode}: {done.stdout}{done.stderr}"
        if following and following.language == "text" and "output" in following.words:
            return compare_output(following.text, done.stdout)
        return None

    # ---- commands

    def directory(self, block):
        """A directory that looks like the project's root, and may be written to."""
        directory = self.work / "root" / block.page.replace("/", "_")
        directory.mkdir(parents=True, exist_ok=True)
        entries = [e for e in self.root.iterdir() if not e.name.startswith((".", "build"))]
        for name, target in [(e.name, e) for e in entries] + [("build", self.build)]:
            link = directory / name
            if not link.exists():
                link.symlink_to(target)
        return directory

    def environment(self):
        return {**os.environ, "PATH": f"{self.build / 'bin'}:{os.environ['PATH']}",
                "XDG_CACHE_HOME": str(self.work / "cache"), "NO_COLOR": "1"}

    def help_of(self, command):
        if command not in self.helps:
            words = ["heddle", *command, "--help"]
            done = subprocess.run(words, capture_output=True, text=True, env=self.environment(),
                                  timeout=TIME_LIMIT)
            self.helps[command] = done.stdout if done.returncode == 0 else ""
        return self.helps[command]

    def check_static(self, command):
        words = [w for w in shlex.split(command, comments=True) if not re.match(r"^[A-Z_]+=", w)]
        if not words:
            return None
        program = words[0]
        if program == "make":
            makefile = (self.root / "Makefile").read_text(encoding="utf-8")
            for target in (w for w in words[1:] if "=" not in w and not w.startswith("-")):
                if not re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE):
                    return f"'{command}': the Makefile has no target {target}"
        elif program in RUNNABLE:
            # A command may have commands of its own; what is none does not change the help.
            sub = tuple(itertools.takewhile(lambda w: not w.startswith("-"), words[1:3]))
            text = self.help_of(sub)
            if not text:
                return f"'{command}': heddle has no command {' '.join(sub)}"
            text += self.help_of(())  # options for all commands
            for option in (w.split("=")[0] for w in words if re.match(r"^--?[a-z]", w)):
                if not re.search(rf"(^|[\s,]){re.escape(option)}\b", text):
                    return f"'{command}': {option} is not an option of heddle {' '.join(sub)}"
        elif program.startswith("scripts/"):
            if not (self.root / program).is_file():
                return f"'{command}': there is no {program}"
        elif program not in KNOWN_PROGRAMS and not program.startswith(("./", "build/", "apt-get")):
            return f"'{command}': {program} is not a program the documentation may use unseen"
        return None

    def check_shell(self, block):
        commands = []  # (command, what it prints)
        for line in block.text.split("\n"):
            if line.startswith("$ "):
                commands.append([line[2:], ""])
            elif commands and commands[-1][0].endswith("\\"):
                commands[-1][0] = commands[-1][0][:-1] + line
            elif commands:
                commands[-1][1] += line + "\n"
            elif line.strip() and "static" in block.words:
                commands.append([line, ""])
            elif line.strip():
                return "output without a command: commands begin with '$ '"
        for command, expected in commands:
            # What is to be refused may be called wrongly.
            problem = None if block.values.get("status") == "2" else self.check_static(command)
            if problem:
                return problem
            if "static" in block.words:
                continue
            first = shlex.split(command)[0]
            if first not in RUNNABLE and not first.startswith("build/"):
                return f"'{command}' would have to run: use heddle, or mark the block static"
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                                  cwd=self.directory(block), env=self.environment(),
                                  timeout=TIME_LIMIT)
            if done.returncode != int(block.values.get("status", 0)):
                return f"'{command}' ends with {done.returncode}: {done.stdout}"
            problem = compare_output(expected, done.stdout) if expected.strip() else None
            if problem:
                return f"'{command}' {problem}"
        return None

    def check_script(self, block):
        command = [str(self.root / block.values["of"]), str(self.build)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, env=self.environment(), timeout=TIME_LIMIT)
        if done.returncode != 0:
            return f"{block.values['of']} ends with {done.returncode}: {done.stdout}"
        return compare_output(block.text, done.stdout.replace(str(self.build), "build"))

    # ---- all of it

    def check(self, block, following):
        if block.language in ("cpp", "c"):
            return self.check_code(block, following)
        if block.language == "sh":
            return self.check_shell(block)
        if block.language == "text" and "of" in block.values:
            return self.check_script(block)
        if block.language == "text":
            return None
        if "from" in block.values:
            return self.check_quote(block)
        if block.language == "json":
            try:
                json.loads(block.text)
            except ValueError as error:
                return f"is no JSON: {error}"
            return None
        return f"'{block.language}' is no kind of block: see the beginning of check_docs.py"

    def checked(self, block, following):
        try:
            problem = self.check(block, following)
        except subprocess.TimeoutExpired as error:
            problem = f"{error.cmd} takes longer than {TIME_LIMIT} seconds"
        return f"{block.where()}: {problem}" if problem else None


def all_pages(root):
    pages = [p for pattern in ("*.md", "docs/*.md", "data/*.md", "examples/*.md")
             for p in root.glob(pattern)]
    return sorted(str(page.relative_to(root)) for page in pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("pages", nargs="*")
    options = parser.parse_args()

    checker = Checker(options)
    checker.work.mkdir(parents=True, exist_ok=True)
    problems, jobs = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for page in options.pages or all_pages(checker.root):
            blocks, wrong = read_page(checker.root, page)
            problems += wrong
            for block, following in zip(blocks, blocks[1:] + [None]):
                jobs.append(pool.submit(checker.checked, block, following))
    problems += [job.result() for job in jobs if job.result()]
    print("\n".join(problems + [f"{len(jobs)} blocks, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
