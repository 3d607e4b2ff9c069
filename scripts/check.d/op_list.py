"""Headers that many sources include do not see the list of ops (ggml/op_list.h), so that a new op has few of them
compiled again: op_list.txt says which may."""
import re

from layers import INCLUDE, target_of

LIST = "include/ggml/op_list.h"
# What programs and C see of a header.
FOR_CLIENTS = re.compile(r'#ifndef (?:HEDDLE_EXPLICIT_OPS|__cplusplus)\b.*?#endif', re.DOTALL)
FOLDERS = ("src", "tools")
DESCRIPTOR = re.compile(r'\bOp id = GGML_OP_')


def includes_of(file, known):
    """What of this tree a file includes: line number and path."""
    text = FOR_CLIENTS.sub(lambda part: re.sub(r'[^\n]', '', part.group()), file.text)
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        target = match and target_of(match[1], file.path, known)
        if target:
            yield number, target


def seeing(includes):
    """The files that include the list, or a file that does."""
    found, before = {LIST}, 0
    while len(found) != before:
        before = len(found)
        found |= {path for path, targets in includes.items() if any(target in found for _, target in targets)}
    return found


def check_op_list(tree):
    known = set(tree.paths)
    rows = {fields[0]: number for number, fields in tree.rows("op_list.txt")}

    def may(file):
        is_descriptor = file.path.startswith("src/ops/") and DESCRIPTOR.search(file.code_text)
        return is_descriptor or file.is_test or any(file.path == row or file.path.startswith(row + "/") for row in rows)

    headers = {file.path: file for file in tree.code("include", *FOLDERS) if file.path.endswith((".h", ".hpp", ".cuh"))}
    includes = {path: list(includes_of(file, known)) for path, file in headers.items()}
    found = seeing(includes)
    bad = {path for path in found if path.startswith(FOLDERS) and not may(headers[path])}
    for path in bad:
        for number, target in includes[path]:
            if target in found and target not in bad:
                tree.fail(path, number, f"a header that includes the list of ops{'' if target == LIST else ', through ' + target}",
                          "let its sources include it; or give it a row in scripts/check.d/op_list.txt, if they name ops anyway")
    for row, number in rows.items():
        if not any(path == row or path.startswith(row + "/") for path in found):
            tree.fail("scripts/check.d/op_list.txt", number, f"{row} does not see the list of ops any more", "remove the row")
