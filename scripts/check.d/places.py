"""What may stand in few places: the environment, ends of the process, printing, machine instructions."""
import re

KINDS = {
    "getenv": (re.compile(r'\b(?:secure_)?getenv\s*\('), ("src", "include", "tools"),
               "read it in src/capi or the registration of the backend, and pass the value down"),
    "exit": (re.compile(r'\b(?:abort|_?exit|_Exit|quick_exit|terminate)\s*\('), ("src", "include", "tools"),
             "return a Result; the caller decides what becomes of a failure"),
    "print": (re.compile(r'\b(?:v?f?printf|f?puts|f?putc|putchar|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b'),
              ("src", "include"), "use log_line() of core/log.hpp"),
    "machine": (re.compile(r'\basm\b|\b_mm\d*_\w+\(|\b__builtin_ia32_\w+|\bv[a-z]\w*q?_(?:high_|low_|n_|lane_)?'
                           r'(?:[sufp](?:8|16|32|64)|bf16)\w*\('), ("src", "include", "tools", "bench"),
                "use Highway, or a helper of src/simd"),
}
# A method of that name of something else is none of these.
NOT_OURS = re.compile(r'(\.|->|\w::)$')


def mentions(pattern, line):
    count = 0
    for match in pattern.finditer(line):
        before = line[:match.start()]
        if not NOT_OURS.search(before) or before.endswith("std::"):
            count += 1
    return count


def check_places(tree):
    allowed, anywhere = {}, []
    for _, (limit, kind, path, *_) in tree.rows("places.txt"):
        if limit == "any":
            anywhere.append((kind, path))
        else:
            allowed[kind, path] = int(limit)
    found, lines = {}, {}
    for kind, (pattern, folders, _) in KINDS.items():
        for file in tree.code(*folders):
            if file.is_test or any(k == kind and (file.path == p or file.path.startswith(p.rstrip("/") + "/"))
                                   for k, p in anywhere):
                continue
            if not pattern.search(file.code_text):
                continue
            for number, line in enumerate(file.code, 1):
                if count := mentions(pattern, line):
                    found[kind, file.path] = found.get((kind, file.path), 0) + count
                    lines[kind, file.path] = number

    def excess(key, count, limit):
        kind, path = key
        past = f", {limit} allowed" if limit else ""
        tree.fail(path, lines[key], f"'{kind}' stands here {count} times{past}",
                  f"{KINDS[kind][2]} (scripts/check.d/places.txt)")
    tree.compare("places.txt", found, allowed, excess)
