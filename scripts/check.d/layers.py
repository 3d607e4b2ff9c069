"""Includes point one way: layers.txt says which. Code that helps tests has one name, so that nothing else includes it."""
import os
import re

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
TESTING = re.compile(r'\s*#\s*include\s+<(gtest|gmock)/')
# Where the build looks for what is included, beside the folder of the file that includes it.
SEARCHED = ("src", "include", "include/plugin", "tools/heddle", "")
FOLDERS = ("src", "include", "tools", "bench", "examples")


def layer_of(path, layers):
    """The layer with the longest name that `path` is below."""
    fits = [name for name in layers if path == name or path.startswith(name + "/")]
    return max(fits, key=len, default=None)


def target_of(name, path, known):
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    places = [beside] + [os.path.join(folder, name) for folder in SEARCHED]
    return next((place for place in places if place in known), None)


def check_layers(tree):
    known = set(tree.paths)
    layers = {fields[0]: fields[1].split() if len(fields) > 1 and fields[1] != "-" else []
              for _, fields in tree.rows("layers.txt")}
    for file in tree.code(*FOLDERS):
        own = layer_of(file.path, layers)
        if own is None:
            tree.fail(file.path, 1, "this folder is no layer",
                      "give it a row in scripts/check.d/layers.txt")
            continue
        for number, line in enumerate(file.code, 1):
            if TESTING.match(line) and not file.is_test:
                tree.fail(file.path, number, "includes GoogleTest, and its name does not say that it is for tests",
                          "what helps tests is called test_support.hpp, or ends in _test_support.hpp")
            match = INCLUDE.match(line)
            target = match and target_of(match[1], file.path, known)
            if target:
                check_include(tree, file, number, target, own, layers)


def check_include(tree, file, number, target, own, layers):
    if file.is_test:
        return
    if tree.file(target).is_test and not target.startswith("tools/"):
        tree.fail(file.path, number, f"includes {target}, which is for tests",
                  "what both need goes into a header of its own")
        return
    other = layer_of(target, layers)
    allowed = layers[own]
    if other in (own, "include") or other in allowed or target in allowed:
        return
    tree.fail(file.path, number, f"{own} includes {target}, of {other or 'no layer'}",
              f"it may include {', '.join(allowed) or 'only include'} (scripts/check.d/layers.txt); "
              "move what both need to a layer below them")
