#!/usr/bin/env python3
"""Writes the documentation as HTML pages that need nothing else.

    docs_html.py SOURCE DIRECTORY

README.md of SOURCE becomes index.html in DIRECTORY, each page of docs/ a page beside it. It knows the part of Markdown
that the documentation uses: headings, paragraphs, lists, tables, fenced blocks, links, images, code, bold and italics.
"""

import html
import pathlib
import re
import shutil
import sys

LONGEST_ROW = 160  # of a table in a fenced block
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --box: #8881; --link: #2f7d6d; }}
body {{ max-width: 62rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }}
pre, code {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }}
pre {{ background: var(--box); padding: .8em 1em; border-radius: 8px; overflow-x: auto; }}
pre.told {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border-bottom: 1px solid var(--line); padding: .3em .8em .3em 0; text-align: left; vertical-align: top; }}
a {{ color: var(--link); }}
img {{ max-width: 100%; }}
</style>
</head>
<body>
<p><a href="index.html">Heddle</a></p>
{body}
</body>
</html>
"""


def target_of(link, page):
    """Where a link of `page` leads in the pages that are written; None where that is not among them."""
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    path, _, anchor = link.partition("#")
    at = (page.parent / path).as_posix()
    at = re.sub(r"[^/]+/\.\./", "", at)
    if at == "README.md":
        at = "index.html"
    elif at.startswith("docs/"):
        at = at.removeprefix("docs/").removesuffix(".md") + (".html" if at.endswith(".md") else "")
    else:
        return None
    return at + (f"#{anchor}" if anchor else "")


def inline(text, page):
    """Code, links, images, bold and italics of a line."""
    parts = re.split(r"(`+)(.+?)\1", text)
    made = ""
    for i in range(0, len(parts), 3):
        made += marked(parts[i], page)
        if i + 2 < len(parts):
            made += f"<code>{html.escape(parts[i + 2].strip())}</code>"
    # A link around code was cut by it.
    return re.sub(r"\[((?:[^\[\]]|<code>.*?</code>)*)\]\(([^)\s]+)\)", lambda m: link(m[1], m[2], page), made)


def link(words, where, page):
    target = target_of(html.unescape(where), page)
    return words if target is None else f'<a href="{html.escape(target)}">{words}</a>'


def marked(text, page):
    text = html.escape(text, quote=False)
    text = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)\)",
                  lambda m: f'<img src="{html.escape(target_of(m[2], page) or "")}" alt="{m[1]}">', text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<i>\1</i>", text)


def anchor(words):
    plain = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", words).lower())
    return plain.strip().replace(" ", "-")


class Writer:
    def __init__(self, page):
        self.page, self.out, self.paragraph, self.items, self.rows = page, [], [], [], []

    def flush(self):
        if self.paragraph:
            self.out.append(f"<p>{inline(' '.join(self.paragraph), self.page)}</p>")
        if self.items:
            self.out.append("<ul>" + "".join(f"<li>{inline(i, self.page)}</li>" for i in self.items) + "</ul>")
        if self.rows:
            head, *rest = self.rows
            rows = [f"<tr>{''.join(f'<th>{inline(c, self.page)}</th>' for c in head)}</tr>"]
            rows += [f"<tr>{''.join(f'<td>{inline(c, self.page)}</td>' for c in row)}</tr>" for row in rest]
            self.out.append("<table>\n" + "\n".join(rows) + "\n</table>")
        self.paragraph, self.items, self.rows = [], [], []

    def line(self, line):
        heading = re.match(r"(#+) (.*)", line)
        item = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if heading:
            self.flush()
            level, words = len(heading[1]), heading[2]
            self.out.append(f'<h{level} id="{anchor(words)}">{inline(words, self.page)}</h{level}>')
        elif line.startswith("|"):
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if not all(re.fullmatch(r":?-+:?", c) for c in cells):
                self.rows.append([c.replace("\\|", "|") for c in cells])
        elif item:
            if self.paragraph or self.rows:
                self.flush()
            self.items.append(item[1])
        elif not line.strip() or line.startswith("<!--"):
            self.flush()
        elif self.items and line.startswith(" "):
            self.items[-1] += " " + line.strip()
        else:
            self.paragraph.append(line.strip())

    def write(self, text):
        fence = None
        for line in text.split("\n"):
            if line.lstrip().startswith("```"):
                if fence is None:
                    self.flush()
                    fence = []
                else:
                    # What is told in a line goes on in the next; tables stay tables.
                    longest = max((len(row) for row in fence if not row.startswith("$ ")), default=0)
                    kind = ' class="told"' if longest > LONGEST_ROW else ""
                    self.out.append(f"<pre{kind}>" + html.escape("\n".join(fence), quote=False) + "</pre>")
                    fence = None
            elif fence is not None:
                fence.append(line)
            else:
                self.line(line)
        self.flush()
        return "\n".join(self.out)


def main():
    source, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for path in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        page = path.relative_to(source)
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^# (.*)$", text, re.MULTILINE)[1].replace("`", "")
        made = PAGE.format(title=html.escape(title), body=Writer(page).write(text))
        name = "index.html" if page.name == "README.md" else page.stem + ".html"
        (directory / name).write_text(made, encoding="utf-8")
    for path in (source / "docs").iterdir():
        if path.suffix in {".png", ".svg"}:
            shutil.copy(path, directory / path.name)


if __name__ == "__main__":
    main()
