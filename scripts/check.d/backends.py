"""Every backend of the tree is a row of src/backends/list.txt and a folder; docs/install.md shows the list."""

LIST = "src/backends/list.txt"
PAGE = "docs/install.md"
BEGIN, END = "<!-- backends: written by `scripts/check --tighten` -->", "<!-- backends: end -->"
LOADED = {"built-in": "part of the library", "found": "a plug-in, by itself",
          "request": "a plug-in, when it is named"}
FIELDS = ("name", "loaded", "registration", "build", "off by", "linked", "where", "what")
# Folders that backends share.
SHARED = ("gpu",)


def read_list(tree):
    """Line number and the named cells of every backend of this tree."""
    for number, line in enumerate(tree.file(LIST).lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = dict(zip(FIELDS, (cell.strip() for cell in line.split("|"))))
        if cells.get("registration", "-") != "-":
            yield number, cells


def table_of(rows):
    lines = [BEGIN, "| backend | what it is | built where there is | left out by | loaded |", "|---|---|---|---|---|"]
    for _, row in rows:
        switch = f"`{row['build']}=OFF`" if row["build"] != "-" else ""
        off = f"; not with `{row['off by']}` set" if row["off by"] != "-" else ""
        lines.append(f"| `{row['name']}` | {row['what']} | {row['where']} | {switch} | {LOADED[row['loaded']]}{off} |")
    return "\n".join(lines + [END])


def check_backends(tree):
    rows = list(read_list(tree))
    for number, row in rows:
        missing = [field for field in FIELDS if not row.get(field)]
        if missing:
            tree.fail(LIST, number, f"{row['name']} has no '{missing[0]}'", "fill the column, with - for nothing")
            return
        if f"src/backends/{row['name']}/CMakeLists.txt" not in tree.paths:
            tree.fail(LIST, number, f"there is no folder src/backends/{row['name']}", "add it, or take the row out")
    names = {row["name"] for _, row in rows}
    for path in tree.paths:
        parts = path.split("/")
        if path.startswith("src/backends/") and parts[3:] == ["CMakeLists.txt"] and parts[2] not in names | set(SHARED):
            tree.fail(path, 1, f"{parts[2]} is no row of {LIST}", "add one, so that it is built and found")
    check_table(tree, table_of(rows))


def check_table(tree, table):
    text = tree.file(PAGE).text
    before, _, rest = text.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if BEGIN + shown + END == table:
        return
    if tree.tighten:
        (tree.root / PAGE).write_text(before + table + after)
        return
    tree.fail(PAGE, before.count("\n") + 1, f"the table of backends is not what {LIST} says", "scripts/check --tighten")
