"""Checks that tests use every name that the headers of the earlier generations give.

    check_2024_names.py HEADER... -- TEST...
"""

import pathlib
import re
import sys

GIVEN = (
    re.compile(r"^static inline [^;{]*?\b(ggml_\w+)\(", re.MULTILINE),
    re.compile(r"^#define (ggml_\w+|GGML_\w+)", re.MULTILINE),
    re.compile(r"^typedef [^;]*?\b(ggml_\w+)(?:;|\)\()", re.MULTILINE),
)


def main():
    cut = sys.argv.index("--")
    headers, tests = ([pathlib.Path(p).read_text(encoding="utf-8") for p in paths]
                      for paths in (sys.argv[1:cut], sys.argv[cut + 1:]))
    names = {name for text in headers for pattern in GIVEN for name in pattern.findall(text)}
    unused = sorted(name for name in names
                    if not any(re.search(rf"\b{name}\b", text) for text in tests))
    for name in unused:
        print(f"no test uses {name}")
    print(f"{len(names)} names, {len(unused)} of them without a test")
    return 1 if unused or not names else 0


if __name__ == "__main__":
    sys.exit(main())
