#!/usr/bin/env python3
"""Looks at pages that `heddle explain` writes, in a browser without a window, as wide as a desktop and as a phone.

    page_look_test.py HEDDLE MODEL DIRECTORY

One device and several, predicted and measured. Nothing may stick out of what it stands in; measured times add up to no
more than the run took. Pictures stay in DIRECTORY. Exits with 77 where there is no Chromium.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "sched"))
from page_test import browser, open_page  # noqa: E402

PAGES = {
    "one": ["--device", "CPU", "--run"],
    "one-predicted": ["--device", "CPU"],
    "three": ["--device", "sim:devices=2", "--run"],
    "three-predicted": ["--device", "sim:devices=2"],
    "five": ["--device", "sim:devices=4", "--run", "--read", "16"],
}
WIDTHS = {"desktop": 1440, "tablet": 800, "phone": 500}  # the least that the browser takes
# What is wider than its place, and texts of the timeline that are cut off. Frames that scroll may hold more than they show.
PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  const out = [];
  if (document.documentElement.scrollWidth > innerWidth) out.push("the page scrolls sideways");
  for (const node of document.querySelectorAll("main *")) {
    if (node.closest("svg, .scroll") || node.matches(".flow > .grid")) continue;
    const style = getComputedStyle(node);
    if (style.overflowX === "visible" && style.display !== "inline" && node.scrollWidth > node.clientWidth + 1)
      out.push(node.tagName + "." + node.className + ": " + node.textContent.slice(0, 60));
  }
  for (const node of document.querySelectorAll(".meter i")) if (node.clientWidth < 30) out.push("a meter of " + node.clientWidth);
  const frame = document.querySelector("#queues svg").getBoundingClientRect();
  for (const node of document.querySelectorAll(".tick-text")) {
    const box = node.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1) out.push("cut off: " + node.textContent);
  }
  document.body.dataset.looks = JSON.stringify(out);
}, 100));</script>"""


def check_times(schedule, where):
    """What devices measured, against the whole run. How much of it they work is the matter of tests/sched."""
    done = [a for a in schedule["actions"] if a.get("measured_end") is not None and not a["skipped"]]
    whole = schedule["measured_seconds"]
    for action in done:
        took = action["measured_end"] - action["measured_start"]
        assert -1e-9 <= action["measured_start"] and 0 <= took and action["measured_end"] <= 1.001 * whole, (where, action)
        nodes = len(schedule["splits"][action["index"]]["nodes"]) if action["kind"] == "compute" else 0
        assert took > 1e-7 * nodes, f"{where}: {nodes} nodes in {took} s"  # no machine is that fast
    # Splits of these pages follow each other; the rest is copies and waiting.
    computing = sum(a["measured_end"] - a["measured_start"] for a in done if a["kind"] == "compute")
    assert 0 < computing <= 1.001 * whole, f"{where}: splits took {computing} s of {whole} s"


def look(program, directory, name, source):
    for width_name, width in WIDTHS.items():
        page = directory / f"{name}-{width_name}.html"
        page.write_text(source.replace("</body>", PROBE + "</body>"), encoding="utf-8")
        options = [f"--window-size={width},1400", "--virtual-time-budget=5000"]
        dom, _ = open_page(program, directory, page.as_uri(), "--dump-dom", *options)
        found = re.search(r'data-looks="([^"]*)"', dom)
        assert found, f"{page}: was not looked at"
        problems = json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&"))
        assert not problems, f"{page}:\n  " + "\n  ".join(problems)
        open_page(program, directory, page.as_uri(), *options, f"--screenshot={directory / page.stem}.png")


def main():
    heddle, model, directory = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    program = browser()
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("HOME", str(directory))
    for name, options in PAGES.items():
        page = directory / f"{name}.html"
        command = [heddle, "explain", model, "--html", str(page), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
        source = page.read_text(encoding="utf-8")
        schedule = json.loads(re.search(r'<script id="schedule"[^>]*>(.*?)</script>', source, re.DOTALL)[1])
        assert ("--run" in options) == (schedule["measured_seconds"] > 0), name
        if "--run" in options:
            check_times(schedule, name)
        look(program, directory, name, source)


if __name__ == "__main__":
    main()
