"""Comments are laid out by people: clang-format leaves them alone, so their width and tables are checked here."""
import re

COLUMNS = 100
FOLDERS = ("src", "include", "tools", "bench", "examples", "tests")
COMMENT = re.compile(r'^\s*//[/!]?<?(.*)$')
GARBLED = re.compile(r'\|\s+\||[^|]$')  # two rows on a line, or no end
BY_HAND = re.compile(r'//\s*clang-format (on|off)')


def check_comments(tree):
    for file in tree.code(*FOLDERS):
        in_table = by_hand = False
        for number, line in enumerate(file.lines, 1):
            if "//" not in line:
                in_table = False
                continue
            switch = BY_HAND.search(line)
            if switch:
                by_hand = switch[1] == "off"
            match = COMMENT.match(line)
            if match and len(line) > COLUMNS and not by_hand:
                tree.fail(file.path, number, f"a comment of {len(line)} columns, the limit is {COLUMNS}",
                          "break it between words")
            words = match[1].strip() if match else ""
            is_row = words.startswith("| ") and words.count("|") > 2
            if in_table and words and not is_row or is_row and GARBLED.search(words):
                tree.fail(file.path, number, "a table with rows that are not one line each",
                          "write a row per line, each from | to |, and an empty line after the last")
                is_row = False
            in_table = is_row


def check_layout_file(tree):
    text = (tree.root / ".clang-format").read_text()
    if not re.search(r'^ReflowComments:\s*false\s*$', text, re.MULTILINE):
        tree.fail(".clang-format", 1, "comments would be reflowed, and tables in them with it",
                  "keep `ReflowComments: false`")
