"""Words of the field, and none that mean something in one place only."""
import re

FOLDERS = ("src", "include", "docs")
READABLE = re.compile(r'\.(c|h|cpp|hpp|cu|cuh|comp|glsl|md|html|txt|cmake)$')
ROW = re.compile(r'^\|(?P<ours>[^|]*`[^|]*)\|(?P<field>[^|]*)\|(?P<where>[^|]*)\|$')
REMEDY = "use the word of the field ({}), see the glossary in CONTRIBUTING.md; scripts/check --where '{}' lists them"

# Paths of one person's machine, and numbers of tasks that readers cannot look up.
LOCAL = re.compile(r'(?<![\w.}$])/(?:home/\w+|root|Users/\w+)/|\bissues? #?\d+\b', re.IGNORECASE)
HINTS = ("/home/", "/root/", "/users/", "issue")


def plain(text):
    """Lower-case words one space apart: comments flow on, and names fall into the words they are made of."""
    text = re.sub(r'\n\s*(?:///?<?|\*|#)?\s*', ' ', text)
    text = re.sub(r'(?<=[a-z0-9])(?=[A-Z])|[_-]+', ' ', text)
    return re.sub(r'\s+', ' ', text).lower()


def glossary(tree):
    """(line, word of ours, word of the field, folders) for each row of the table in CONTRIBUTING.md."""
    in_table = False
    for number, line in enumerate(tree.file("CONTRIBUTING.md").lines, 1):
        if line.startswith("#"):
            in_table = line.strip() == "## Glossary"
        row = ROW.match(line) if in_table else None
        if row:
            where = re.findall(r'`([^`]+)`', row["where"]) or FOLDERS
            for word in re.findall(r'`([^`]+)`', row["ours"]):
                yield number, word, row["field"].strip(), where


def pattern_of(word):
    end = r'(?:e?s)?\b' if word[-1].isalnum() else ''
    words = re.escape(plain(word))
    # Words of the field that end like one of ours: micro-panel, and CUDA's multiProcessorCount.
    before = {"panel": r'(?<!micro )', "processor": r'(?<!multi )'}.get(word, '')
    return re.compile(before + r'\b' + words + end)


def check_words(tree):
    text = {}
    for file in tree.files(*FOLDERS):
        if READABLE.search(file.path):
            text[file.path] = plain(file.path + "\n" + file.text)
    found, first, instead = {}, {}, {}
    for _, word, field, where in glossary(tree):
        pattern, needle = pattern_of(word), plain(word)
        instead[word] = field
        for path, words in text.items():
            if needle not in words or not any(path.startswith(folder + "/") for folder in where):
                continue
            if count := len(pattern.findall(words)):
                found[word] = found.get(word, 0) + count
                first.setdefault(word, []).append(path)
    for word, count in found.items():
        path = first[word][0]
        line = next((number for number, _ in lines_of(tree.file(path), pattern_of(word))), 1)
        others = f" and {len(first[word]) - 1} more files" if len(first[word]) > 1 else ""
        tree.fail(path, line, f"'{word}' stands {count} times in this{others}", REMEDY.format(instead[word], word))


def lines_of(file, pattern):
    """Lines on which the word begins; it may end on the next one."""
    for number, line in enumerate(file.lines, 1):
        both = plain("\n".join(file.lines[number - 1:number + 1]))
        after = len(pattern.findall(plain(file.lines[number]))) if number < len(file.lines) else 0
        if len(pattern.findall(both)) > after:
            yield number, line.strip()


def places_of(tree, word):
    """Every place of a word of the glossary, for whoever renames it."""
    for _, listed, _, where in glossary(tree):
        if listed != word:
            continue
        for file in tree.files(*where):
            if READABLE.search(file.path) and pattern_of(word).search(plain(file.text)):
                for number, line in lines_of(file, pattern_of(word)):
                    yield f"{file.path}:{number}: {line}"


def check_local(tree):
    for file in tree.files(*sorted({path.split("/")[0] for path in tree.paths})):
        if file.path.startswith("scripts/check.d/"):
            continue
        lower = file.text.lower()
        if not any(hint in lower for hint in HINTS):
            continue
        for match in LOCAL.finditer(file.text):
            line = file.text.count("\n", 0, match.start()) + 1
            tree.fail(file.path, line, f"'{match.group()}' means nothing to people elsewhere",
                      "say it without, or leave it out")
