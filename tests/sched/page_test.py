#!/usr/bin/env python3
"""Opens the page of a schedule in a browser without a window and looks at what its script made.

    page_test.py EXPLAIN_SCHEDULE DIRECTORY

EXPLAIN_SCHEDULE is the example that writes the page; the page and a picture of it go to DIRECTORY.
Exits with 77 where there is no Chromium.
"""
import collections
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

BLOCKS = 4


class Elements(html.parser.HTMLParser):
    """Counts elements by their data attributes, and keeps the schedule itself."""

    def __init__(self):
        super().__init__()
        self.found = collections.defaultdict(lambda: collections.defaultdict(set))
        self.schedule = ""
        self.in_schedule = False
        self.attributes_of_body = {}

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.in_schedule = tag == "script" and values.get("id") == "schedule"
        if tag == "body":
            self.attributes_of_body = values
        for name, value in attributes:
            if name.startswith("data-"):
                kind = (values.get("class") or tag).split()[0]
                self.found[name[len("data-"):]][kind].add(value)

    def handle_data(self, data):
        if self.in_schedule:
            self.schedule += data


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    print("no Chromium here: the page is not looked at")
    sys.exit(77)


def open_page(program, directory, url, *options):
    # A profile of its own: a browser that is open already is left alone.
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--hide-scrollbars", "--no-first-run", "--enable-logging=stderr",
               f"--user-data-dir={directory / 'browser'}", *options, url]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    assert not complaints, "\n".join(complaints)
    return done.stdout, time.monotonic() - start


def numbers(count):
    return {str(i) for i in range(count)}


def check_small(program, directory, example):
    page = directory / "schedule.html"
    subprocess.run([example, page, str(BLOCKS)], check=True, stdout=subprocess.DEVNULL, timeout=60)
    dom, _ = open_page(program, directory, page.as_uri() + "#predicted", "--dump-dom")
    elements = Elements()
    elements.feed(dom)
    schedule = json.loads(elements.schedule)
    found = elements.found
    assert elements.attributes_of_body.get("data-ready") == "yes", "the script did not come to its end"

    # Each block: a and b on the accelerator, d on the host, e and f on the accelerator. f of one
    # block and a of the next stay in one split.
    assert len(schedule["splits"]) == 2 * BLOCKS + 1, schedule["splits"]
    copied = collections.Counter(re.sub(r"\d+$", "", copy["tensor"]) for copy in schedule["copies"])
    assert copied == {"x": 1, "b": BLOCKS, "d": BLOCKS}, copied
    assert not schedule["hazards"], schedule["hazards"]

    splits, copies = numbers(len(schedule["splits"])), numbers(len(schedule["copies"]))
    assert found["split"]["split"] == splits, "boxes of splits"
    assert found["split"]["bar"] == splits, "bars of splits"
    assert found["copy"]["bar"] == copies, "bars of copies"
    assert found["copy"]["pill"] == copies, "copies at their splits"
    assert found["node"]["chip"] == numbers(len(schedule["nodes"])), "nodes"
    assert found["row"]["tr"] == numbers(len(schedule["nodes"])), "rows of nodes"
    assert found["block"]["block"] == numbers(len(schedule["memory"])), "blocks of memory"
    assert found["device"]["card"] == {"0", "1"}, "devices"
    assert len(found["edge-copy"]["edge"]) == 2 * BLOCKS, "copies of results have an edge each"
    assert "weight 'block0.wg' is there" in dom, "reasons"
    check_search(program, directory, page)
    open_page(program, directory, page.as_uri() + "#predicted", "--window-size=1440,1500",
              f"--screenshot={directory / 'schedule.png'}")
    assert (directory / "schedule.png").stat().st_size > 10_000


def check_search(program, directory, page):
    """Nodes that are looked for are marked, and the table has no others."""
    dom, _ = open_page(program, directory, page.as_uri() + "#find=silu%20sim0", "--dump-dom")
    elements = Elements()
    elements.feed(dom)
    nodes = json.loads(elements.schedule)["nodes"]
    expected = {str(i) for i, node in enumerate(nodes) if node["op"] == "SILU" and node["device"] == 0}
    assert len(expected) == 2 * BLOCKS
    marked = set(re.findall(r'class="chip hit" data-node="(\d+)"', dom))
    assert marked == expected, marked
    assert elements.found["row"]["tr"] == expected, "rows of the nodes that were found"


def check_times(program, directory):
    """What was measured is what is shown, beside what was predicted."""
    page = (directory / "schedule.html").as_uri()
    for clock, mark in [("#predicted", " predicted, took "), ("", " measured, ")]:
        dom, _ = open_page(program, directory, page + clock, "--dump-dom")
        cards = re.findall(r'<div class="card device".*?</div></div>', dom, re.DOTALL)
        assert len(cards) == 2 and all(mark in card for card in cards), (clock, cards)
        assert "measured to predicted" in dom, "the ratio"
        assert ("\u00d7 predicted)" in dom) == (clock == ""), "boxes follow the switch"
        beside = r", \d[\d.]*\u00d7 predicted<" if clock == "" else r", took \d[\d.]*\u00d7<"
        assert re.search(beside, cards[0]), f"both clocks in one card: {cards[0]}"


def check_words_around(program, directory):
    """Title, legend, axis, folded reasons; and no scrolling sideways on a phone."""
    source = (directory / "schedule.html").read_text(encoding="utf-8")
    about = {"model": "tales.gguf", "command": "heddle explain tales.gguf", "machine": "a loom", "date": "2026"}
    mark = '<script id="about" type="application/json">{}</script>'
    assert mark in source
    source = source.replace(mark, mark.replace("{}", json.dumps(about)))
    probe = "<script>document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;</script>"
    page = directory / "about.html"
    page.write_text(source.replace("</body>", probe + "</body>"), encoding="utf-8")
    dom, _ = open_page(program, directory, page.as_uri(), "--dump-dom", "--window-size=500,900")
    assert "<title>tales.gguf \u2013 schedule</title>" in dom
    for words in ["heddle explain tales.gguf", "a loom", "2026", "view, which computes nothing", ">step 0<"]:
        assert words in dom, words
    assert 'data-wide="false"' in dom, "the page is wider than a phone"
    open_page(program, directory, page.as_uri(), "--window-size=500,1500",
              f"--screenshot={directory / 'phone.png'}")


def check_large(program, directory, example):
    """Two thousand nodes are still shown, in reasonable time."""
    page = directory / "large.html"
    subprocess.run([example, page, "400"], check=True, stdout=subprocess.DEVNULL, timeout=900)
    dom, seconds = open_page(program, directory, page.as_uri(), "--dump-dom")
    elements = Elements()
    elements.feed(dom)
    assert elements.attributes_of_body.get("data-ready") == "yes"
    assert elements.found["node"]["chip"] == numbers(2000)
    assert seconds < 60, f"{seconds:.0f} s to open a page of 2000 nodes"


def main():
    example, directory = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    program = browser()
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HOME", str(directory))
    check_small(program, directory, example)
    check_times(program, directory)
    check_words_around(program, directory)
    check_large(program, directory, example)


if __name__ == "__main__":
    main()
