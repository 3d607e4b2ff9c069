"""The files that are checked, what of them is code, and the lists of what is allowed."""
import re
import subprocess

CODE = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")
# Comments, strings and characters; a quote between digits separates them (1'000).
TOKENS = re.compile(
    r'//(?:[^\n\\]|\\.)*'
    r'|/\*.*?\*/'
    r'|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'",
    re.DOTALL)
INCLUDE = re.compile(r'\s*#\s*include\s')
TEST_CODE = re.compile(r'(^|[/_])test_support\.|_(test|bench)\.|(^|/)test_plugins/')


def blanked(match):
    """As many lines and columns, with nothing in them."""
    return re.sub(r'[^\n]', ' ', match.group())


class File:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self._code = self._code_text = None

    @property
    def is_code(self):
        return self.path.endswith(CODE)

    @property
    def is_test(self):
        return self.path.startswith("tests/") or TEST_CODE.search(self.path) is not None

    @property
    def code(self):
        """The lines without comments and the contents of strings."""
        if self._code is None:
            lines = TOKENS.sub(blanked, self.text).split("\n")
            self._code = [whole if INCLUDE.match(whole) else line
                          for line, whole in zip(lines, self.lines)]
        return self._code

    @property
    def code_text(self):
        if self._code_text is None:
            self._code_text = "\n".join(self.code)
        return self._code_text


class Tree:
    def __init__(self, root, tighten=False):
        self.root = root
        self.tighten = tighten
        self.rule = ""
        self.failures, self.notes = [], []
        self.paths = self._paths()
        self._files = {}

    def for_rule(self, name):
        self.rule = name
        return self

    def _paths(self):
        """What git knows or would take; without git everything."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                                capture_output=True, text=True)
        if listed.returncode == 0 and (self.root / ".git").exists():
            names = listed.stdout.splitlines()
        else:
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()]
        return sorted(n for n in names if not n.startswith("build") and (self.root / n).is_file())

    def file(self, path):
        if path not in self._files:
            data = (self.root / path).read_bytes()
            text = "" if b"\0" in data[:4096] else data.decode("utf-8", "replace")
            self._files[path] = File(path, text)
        return self._files[path]

    def files(self, *folders):
        """Text files below `folders`, which may also be files."""
        for path in self.paths:
            if path.startswith("tests/data/"):
                continue
            if any(path == f or path.startswith(f + "/") for f in folders):
                yield self.file(path)

    def code(self, *folders):
        return (f for f in self.files(*folders) if f.is_code)

    def fail(self, path, line, what, remedy):
        self.failures.append(f"{path}:{line}: [{self.rule}] {what}: {remedy}")

    def note(self, words):
        self.notes.append(words)

    # ---- lists -----------------------------------------------------------------------------

    def rows(self, name):
        """Rows of a list in scripts/check.d: line number and fields, which are two spaces apart."""
        path = self.root / "scripts" / "check.d" / name
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                yield number, re.split(r'\s{2,}|\t', line.strip())

    def counts(self, name, keys=1):
        """A list of what is left: {keys: count}, where each row is the count and then the keys."""
        return {tuple(fields[1:1 + keys]): int(fields[0]) for _, fields in self.rows(name)}

    def compare(self, name, found, allowed, excess):
        """Compares counts with a list: `excess(key, count, allowed)` tells of what is above. What is
        below is noted, or written into the list when it is tightened."""
        for key, count in found.items():
            if count > allowed.get(key, 0):
                excess(key, count, allowed.get(key, 0))
        fewer = {key: found.get(key, 0) for key, limit in allowed.items() if found.get(key, 0) < limit}

        def lowered(line, fields):
            key = next((k for k in fewer if tuple(fields[1:1 + len(k)]) == k), None)
            if key is None:
                return line
            count = fewer[key]
            return re.sub(r'\d+', lambda m: str(count).rjust(len(m.group())), line, count=1) if count else None
        self.shorten(name, len(fewer), lowered)

    def shorten(self, name, count, change):
        """Writes `count` rows of a list anew when lists are tightened, and notes else that it could be:
        `change(line, fields)` gives a line or, if it is gone, None."""
        if count == 0:
            return
        if not self.tighten:
            self.note(f"{count} rows of scripts/check.d/{name} ask for less by now: scripts/check --tighten")
            return
        path = self.root / "scripts" / "check.d" / name
        lines = []
        for line in path.read_text().splitlines():
            is_row = line.strip() and not line.startswith("#")
            lines.append(change(line, re.split(r'\s{2,}|\t', line.strip())) if is_row else line)
        path.write_text("\n".join(line for line in lines if line is not None) + "\n")
