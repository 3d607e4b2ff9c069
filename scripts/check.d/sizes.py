"""Small pieces: files and functions have a size to aim for and a limit. sizes.txt has what is above the aim."""
import re

FOLDERS = ("src", "include", "tools", "bench", "examples", "tests", "scripts")
FILE_AIM, FILE_LIMIT = 400, 800
FUNCTION_AIM, FUNCTION_LIMIT = 60, 120
SCRIPT = re.compile(r'(\.py|\.sh|\.cmake)$|^scripts/[^.]+$')
NOT_A_FUNCTION = re.compile(r'^(namespace|class|struct|union|enum|extern|if|else|for|while|switch|do|try|catch|case'
                            r'|default|return|using|typedef)\b|^[#})\]({]|^\[(?!\[)|=\s*\{$|^[A-Za-z_:<>, ]*\{$')
DECORATION = re.compile(r'\b__\w+__(\s*\([^)]*\))?|\[\[.*?\]\]|\b(alignas|GGML_ATTRIBUTE_FORMAT)\([^)]*\)')
NAME = re.compile(r'([~\w:]*operator\s*\S+|[~\w:]+)\s*\(')
TEST_NAME = re.compile(r'^(?:TYPED_)?TEST(?:_[FP])?\((\w+), (\w+)\)')
TEMPLATE = re.compile(r'^(template\s*<[^{;]*?>\s*(requires\b[^{;]*?\s)?)(?=[\w\[~:])')


def check_file_sizes(tree):
    found = {}
    for file in tree.files(*FOLDERS):
        lines = file.text.count("\n")
        if lines <= FILE_AIM or not (file.is_code or SCRIPT.search(file.path)):
            continue
        found[file.path, "-"] = (FILE_AIM + 1, f"{lines} lines; aim for {FILE_AIM}")
        if lines > FILE_LIMIT:
            tree.fail(file.path, FILE_LIMIT + 1, f"{lines} lines, the limit is {FILE_LIMIT}",
                      "split it by what its parts are about")
    compare(tree, found, lambda name: name == "-")


def header_before(code, at):
    """The first line of the declaration whose body opens at the end of line `at`, and its text."""
    first = at
    while first > 0:
        above = code[first - 1].strip()
        if not above or above.startswith("#") or above[-1] in ";{}" or above.endswith(("public:", "private:",
                                                                                      "protected:")):
            break
        first -= 1
    return first, " ".join(line.strip() for line in code[first:at + 1])


def name_of(header):
    test = TEST_NAME.match(header)
    if test:
        return f"{test[1]}.{test[2]}"
    match = NAME.search(header)
    return match[1].split("::")[-1] if match else "?"


def functions_in(code):
    """Name, first line (from 0) and number of lines of every function, found by its layout."""
    at = 0
    while at < len(code):
        line = code[at].rstrip()
        if not line.endswith("{"):
            at += 1
            continue
        first, header = header_before(code, at)
        header = DECORATION.sub("", TEMPLATE.sub("", header)).strip()
        if "(" not in header or NOT_A_FUNCTION.search(header):
            at += 1
            continue
        indent = len(code[first]) - len(code[first].lstrip())
        closing = " " * indent + "}"
        end = next((i for i in range(at + 1, len(code)) if code[i].startswith(closing)), at)
        yield name_of(header), first, end - first + 1
        at = end + 1


def check_function_sizes(tree):
    found = {}
    for file in tree.code(*FOLDERS):
        for name, first, count in functions_in(file.code):
            if count <= FUNCTION_AIM:
                continue
            found[file.path, name] = (first + 1, f"{name} has {count} lines; aim for {FUNCTION_AIM}")
            if count > FUNCTION_LIMIT:
                tree.fail(file.path, first + 1, f"{name} has {count} lines, the limit is {FUNCTION_LIMIT}",
                          "split it by its steps")
    compare(tree, found, lambda name: name != "-")


def compare(tree, found, is_ours):
    """Tells of what is above its aim and not in the list, and of rows of the list that nothing needs."""
    listed = {(path, name) for _, (path, name) in tree.rows("sizes.txt") if is_ours(name)}
    for key, (line, what) in found.items():
        if key not in listed:
            tree.fail(key[0], line, what, "split it (scripts/check.d/sizes.txt has what was above when the rule "
                      "came; nothing is added)")
    gone = listed - found.keys()
    tree.shorten("sizes.txt", len(gone), lambda line, fields: None if tuple(fields) in gone else line)
