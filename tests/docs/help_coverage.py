#!/usr/bin/env python3
"""Keeps what `--help` promises.

    help_coverage.py HEDDLE SOURCE BUILD

Lists the options of every command of HEDDLE from its own help, and runs for each the command line that help_promises.py
has for it. Fails where an option has none, where there is one for an option that is not there, and where the command does
not do what the option says. Examples in the help must use options that exist. An option has one meaning in all commands:
the same letter, the same kind of argument, and the same sentence, to which only those in ADDS may add something.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys

from help_promises import ADDS, PROMISES, TALE

OPTION = re.compile(r"^ {2}(?: {4})?(?:(-[A-Za-z]), )?(?:(--[a-z][a-z-]*)|(-[A-Za-z])\b)")
TEMPLATE = "{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"


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


class Meaning:
    """An option as the help of one command shows it."""

    def __init__(self, command, letter, value, text):
        self.command, self.letter = "heddle " + " ".join(command), letter
        self.kind = "choice" if "|" in value else value
        self.sentence = re.sub(r" \(default:? [^()]*(?:\([^()]*\)[^()]*)*\)$", "", text)  # which is the command's own


def meanings_in(command, text):
    """(long name, meaning) of each option of a help."""
    entry = re.compile(r"^  (?:(-\w), |    )(--[a-z][a-z-]*)(?: (\S+))?(?:  +(\S.*))?$|^ {26}(\S.*)$|^(.*)$", re.MULTILINE)
    name = None
    for letter, long_name, value, first, more, other in entry.findall(text.partition("\nExamples:\n")[0]):
        if name and not more:
            yield name, Meaning(command, *head, " ".join(words))
            name = None
        if long_name:
            name, head, words = long_name, (letter, value), [first] if first else []
        elif more and name:
            words.append(more)


def meanings(program, commands):
    """All of each name."""
    found = {}
    for command in sorted(commands):
        for name, meaning in meanings_in(command, help_of(program, command) + "\n"):
            found.setdefault(name, []).append(meaning)
    return found


def ambiguous(found):
    """A line for every option that is not the same in all commands that have it: letter, kind of argument, sentence."""
    letters = {}
    for name, each in found.items():
        for meaning in each:
            first = each[0]
            where = f"{name} of {meaning.command} and of {first.command}: "
            if meaning.letter != first.letter:
                yield f"{where}short names '{meaning.letter}' and '{first.letter}'"
            if meaning.kind != first.kind:
                yield f"{where}take '{meaning.kind}' and '{first.kind}'"
            if meaning.letter and letters.setdefault(meaning.letter, name) != name:
                yield f"{meaning.letter} is {name} in {meaning.command}, elsewhere {letters[meaning.letter]}"
            sentence = ADDS.get(name, (first.sentence,))[0]
            begins_alike = meaning.sentence.startswith(sentence) and meaning.sentence[len(sentence):][:1] in ("", ":", ";", ",")
            if meaning.sentence != sentence and not (name in ADDS and begins_alike):
                yield f"{where}'{meaning.sentence}' and '{sentence}'"
    yield from (f"{name} is in ADDS of help_promises.py, but nothing is added to it" for name, (sentence, _) in ADDS.items()
                if all(meaning.sentence == sentence for meaning in found.get(name, [])))


def wrong_examples(program, commands):
    """Examples of the help with options that the help does not have."""
    for command in commands:
        text = help_of(program, command)
        for line in re.findall(r"^  heddle (.*)$", text.partition("\nExamples:\n")[2], re.MULTILINE):
            words = shlex.split(line)
            if words[0].startswith("--"):  # an option for all commands, and its value
                words = words[2:]
            own = [w for w in words[:2] if re.fullmatch("[a-z]+", w)]
            while own and tuple(own) not in commands:
                own.pop()
            texts = [help_of(program, own), help_of(program, [])]  # some options are for all commands
            known = {name for text in texts for names in options_in(text) for name in names}
            yield from (f"heddle {line}: no option {w}" for w in words
                        if re.match("--?[a-z]", w) and w.split("=")[0] not in known and "|" not in line)


def promised(program, words=()):
    """(command, names of one option), of all commands below."""
    text = help_of(program, words)
    for names in options_in(text):
        yield words, names
    for command in commands_in(text):
        yield from promised(program, (*words, command))


def with_template(model, path):
    """A copy of a model with a chat template. What is added is a multiple of the alignment, so that all else stays valid."""
    data = pathlib.Path(model).read_bytes()
    magic, version, tensors, entries = struct.unpack_from("<4sIQQ", data)
    key, value = b"tokenizer.chat_template", TEMPLATE.encode()
    value += b" " * (-(8 + len(key) + 4 + 8 + len(value)) % 32)
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    pathlib.Path(path).write_bytes(struct.pack("<4sIQQ", magic, version, tensors, entries + 1) + entry + data[24:])


class Done:
    """A command that was run."""

    def __init__(self, runner, process, out, err):
        self.runner, self.status, self.out, self.err = runner, process.returncode, out, err

    def json(self):
        return json.loads(self.out)

    def other(self, words):
        return self.runner.run(words)

    def file(self, name):
        return (self.runner.directory / name).read_text(encoding="utf-8")

    def bytes(self, name):
        return (self.runner.directory / name).read_bytes()

    def type_of(self, tensor):
        tensors = self.runner.run(["inspect", "out.gguf", "--json"]).json()["tensors"]
        return next(t["type"] for t in tensors if t["name"] == tensor)


class Runner:
    """Runs command lines in a directory of its own."""

    def __init__(self, program, root, build, directory):
        self.program, self.directory = program, directory
        directory.mkdir(parents=True, exist_ok=True)
        model = root / "data/tales-7m-q8_0.gguf"
        with_template(model, directory / "chat.gguf")
        (directory / "prompt.txt").write_text(TALE + "\n", encoding="utf-8")
        self.names = {"MODEL": str(model), "CHAT": str(directory / "chat.gguf"), "GOLDEN": str(root / "tests/data/golden"),
                      "TEXT": str(root / "LICENSE"),
                      "SIM": str(build / "lib/libggml-sim.so")}

    def run(self, words, stdin="", stop_after=None):
        words = [self.names.get(word, word) for word in words]
        process = subprocess.Popen([self.program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.directory,
                                   env={**os.environ, "XDG_CACHE_HOME": str(self.directory / "cache")})
        try:
            out, err = process.communicate(stdin, timeout=stop_after or 120)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT if stop_after else signal.SIGKILL)
            out, err = process.communicate(timeout=60)
        return Done(self, process, out, err)

    def problem(self, promise):
        """Why the promise is not kept; nothing if it is."""
        done = self.run(promise.words, promise.stdin, promise.stop_after)
        if done.status != promise.status:
            return f"ends with {done.status}, not {promise.status}: {done.err}"
        try:
            return None if promise.check(done) else f"does not do what its help says: {done.out}{done.err}"
        except (ValueError, KeyError, StopIteration, OSError) as error:
            return f"{type(error).__name__} {error}: {done.out[:500]}{done.err}"


def unkept(program, root, build, options):
    """A line for every option without a promise, promise without an option, and promise that is not kept."""
    jobs = []
    known = set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (command, names) in enumerate(options):
            entries = PROMISES.get(command, {})
            key = next((name for name in names if name in entries), None)
            known.add((command, key))
            if "--help" in names:
                continue  # of which the list was made
            if key is None:
                yield f"heddle {' '.join(command)}: help_promises.py has no entry for {', '.join(names)}"
                continue
            runner = Runner(program, root, build, build / "help-coverage" / str(number))
            jobs.append((command, key, entries[key], pool.submit(runner.problem, entries[key])))
        for command, key, promise, job in jobs:
            if job.result():
                yield f"heddle {' '.join(command)} {key}: heddle {shlex.join(promise.words)} {job.result()}"
    for command, entries in PROMISES.items():
        yield from (f"heddle {' '.join(command)}: {key} is promised by help_promises.py alone"
                    for key in entries if (command, key) not in known)


def main():
    program, root, build = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    shutil.rmtree(build / "help-coverage", ignore_errors=True)
    options = list(promised(program))
    assert len(options) > 50, f"only {len(options)} options were found: has the help another form?"
    commands = {command for command, _ in options}
    clash = {"--all": [Meaning(("a",), "-a", "", "All ops"), Meaning(("b",), "", "N", "All values")]}
    assert len(list(ambiguous(clash))) >= 3, "a clash of letter, argument and sentence is not seen"
    found = meanings(program, commands)
    seen = {name for _, names in options for name in names if name.startswith("--")}
    problems = [f"{name}: its line of help is not understood" for name in seen - found.keys()]
    problems += ambiguous(found)
    problems += wrong_examples(program, commands)
    problems += unkept(program, root, build, options)
    print("\n".join(problems))
    print(f"{len(options)} options of {len(commands)} commands, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
