#!/usr/bin/env python3
"""Checks that everything `--help` promises is used somewhere: by a test, or by a command of the documentation.

    help_coverage.py HEDDLE SOURCE

Lists the options of every command of HEDDLE from its own help. An option of a command counts as used where a
command of README or docs/ gives it, or a test of tests/ that is about the command does: a C++ test whose body or
file names the command, or a script that does in the same line.
"""

import pathlib
import re
import shlex
import subprocess
import sys

OPTION = re.compile(r"^ +(?:(-[A-Za-z]), )?(?:(--[a-z][a-z-]*)|(-[A-Za-z])\b)")
# Which command the files of tests are about that do not name it in each test.
SUBJECTS = {"verify_test.cpp": "verify", "bench_test.cpp": "bench", "talk_test.cpp": "run", "models_test.cpp": "run"}


def help_of(program, words):
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"heddle {' '.join(words)} --help ends with {done.returncode}: {done.stderr}"
    return done.stdout


def commands_in(text):
    """The words under "Commands:"."""
    section = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text, re.MULTILINE)
    return re.findall(r"^  ([a-z]+)", section[1], re.MULTILINE) if section else []


def options_in(text):
    """Lists of names: all of an option's."""
    found = []
    for line in text.split("\n"):
        if match := OPTION.match(line):
            found.append([name for name in match.groups() if name])
    return found


def values_in(text):
    """What stands behind each option: "number", "word", or nothing."""
    found = {}
    for name, value in re.findall(r"^ +(?:-[A-Za-z], )?(--[a-z][a-z-]*)(?: ([A-Z]\S*|\S+\|\S+))?(?:  |$)", text, re.MULTILINE):
        found[name] = "number" if value in ("N", "X") else "word" if value else ""
    return found


def ambiguous(program, commands):
    """Options that take a number in one command and something else in another."""
    meanings = {}
    for command in commands:
        for name, value in values_in(help_of(program, command)).items():
            meanings.setdefault(name, {}).setdefault(value, []).append(" ".join(command))
    return {name: kinds for name, kinds in meanings.items() if len(kinds) > 1}


def wrong_examples(program, commands):
    """Examples of the help with options that the help does not have."""
    for command in commands:
        text = help_of(program, command)
        for line in re.findall(r"^  heddle (.*)$", text.partition("\nExamples:\n")[2], re.MULTILINE):
            words = shlex.split(line)
            own = [w for w in words[:2] if re.fullmatch("[a-z]+", w)]
            while own and tuple(own) not in commands:
                own.pop()
            known = {name for names in options_in(help_of(program, own)) for name in names}
            yield from (f"heddle {line}: no option {w}" for w in words
                        if re.match("--?[a-z]", w) and w.split("=")[0] not in known and "|" not in line)


def promised(program, words=()):
    """(command, names of one option), of all commands below."""
    text = help_of(program, words)
    for names in options_in(text):
        yield words, names
    for command in commands_in(text):
        yield from promised(program, (*words, command))


def documented(root):
    """The words of each command that the documentation shows."""
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^\$ (?:[A-Z_]+=\S+ )*(?:build/bin/)?heddle\b(.*)$", text, re.MULTILINE):
            try:
                yield shlex.split(line, comments=True)
            except ValueError:
                continue


def tests_in(root):
    """(name of the file, text) of what may use an option: a C++ test, or a line of a script."""
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        parts = re.split(r"^(?=TEST)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        yield from ((path.name, part) for part in parts[1:])
    scripts = [*(root / "tests").rglob("*.py"), *(p for p in (root / "scripts").iterdir() if p.is_file())]
    for path in sorted(scripts + [root / "tools/heddle/CMakeLists.txt"]):
        if path == pathlib.Path(__file__).resolve():
            continue
        text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
        yield from ((path.name, line) for line in text.split("\n"))


def gives(words, names):
    """Whether one of `names` is among the words, with or without a value behind it."""
    for word in words:
        for name in names:
            if word == name or word.startswith(name + "="):
                return True
            if len(name) == 2 and re.fullmatch(re.escape(name) + r"\d+", word):
                return True
    return False


def is_used(command, names, shown, tests):
    if "--help" in names:
        return True  # by this script
    for words in shown:
        if tuple(words[:len(command)]) == command and gives(words, names):
            return True
    last = command[-1] if command else ""
    for file, text in tests:
        named = f'"{last}"' in text if file.endswith(".cpp") else re.search(rf"\b{last}\b", text)
        about = not last or named or (len(command) == 1 and SUBJECTS.get(file) == last)
        if about and any(re.search(rf'(?<![\w-]){re.escape(name)}(?=["=\s\d]|$)', text) for name in names):
            return True
    return False


def main():
    program, root = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shown, tests = list(documented(root)), list(tests_in(root))
    all_options = list(promised(program))
    assert len(all_options) > 50, f"only {len(all_options)} options were found: has the help another form?"
    unused = [(command, names) for command, names in all_options if not is_used(command, names, shown, tests)]
    commands = {command for command, _ in all_options}
    problems = [f"{name} means different things: {kinds}" for name, kinds in ambiguous(program, commands).items()]
    problems += wrong_examples(program, commands)
    print("\n".join(problems))
    for command, names in unused:
        print(f"heddle {' '.join(command)}: no test and no page uses {', '.join(names)}")
    print(f"{len(all_options)} options of {len(commands)} commands, "
          f"{len(unused)} of them used nowhere")
    return 1 if unused or problems else 0


if __name__ == "__main__":
    sys.exit(main())
