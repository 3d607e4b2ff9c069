"""Workers that compute every layer together: `heddle run --join`."""
import argparse
import functools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from jobs import (GREEDY, PROMPT, environment, expect_no_worker_left, fail, kill, resume, run_text, together, until_in_time,
                  workers)


def settings(options, **more):
    """One thread each: workers that wait for each other want a core each."""
    return {"HEDDLE_MPI_WORKER": f"{options.heddle} worker --threads 1", **more}


def expect_joined(placement, names, what):
    place = f"Meta({','.join(names)})"
    if placement["joined"] != names or {*placement["layers"], placement["output"]} != {place}:
        fail(f"{what}: layers are on {placement['layers']}, joined are {placement['joined']}")


def joined(options):
    """The same words over two and three workers that are joined, also after one is lost; one is too few."""
    with tempfile.TemporaryDirectory() as folder:
        # With weights in blocks columns are rounded to blocks, too: what is added up in another order may be another word.
        model = pathlib.Path(folder) / "exact.gguf"
        subprocess.run([options.heddle, "quantize", options.model, model, "F32"], capture_output=True, timeout=60, check=True)
        check(argparse.Namespace(**{**vars(options), "model": str(model)}))
    expect_no_worker_left()


def check(options):
    local, _ = run_text(options)
    for count in (2, 3):
        hosts = ("--hosts", f"localhost:{count}", "--join")
        remote, _ = run_text(options, *hosts, **settings(options))
        expect_joined(remote["placement"], [f"MPI{rank}:CPU" for rank in range(1, count + 1)], hosts)
        if remote["ids"] != local["ids"]:
            fail(f"{hosts}: other words: {remote['text']!r}, not {local['text']!r}")
    alone = subprocess.run([options.heddle, "run", options.model, "--prompt", PROMPT, "--hosts", "localhost", "--join"],
                           capture_output=True, text=True, timeout=60, env=environment(), check=False)
    if alone.returncode != 1 or "devices can be joined, not 1 (MPI1:CPU)" not in alone.stderr:
        fail(f"one worker: status {alone.returncode}: {alone.stderr}")
    long, _ = run_text(options, count=200)
    together(until_in_time, [(f"joined{count}", functools.partial(lose_one, options, count, long, how))
                             for count, how in ((2, signal.SIGSTOP), (3, signal.SIGKILL))])


def lose_one(options, count, local, how):
    """Loses the second worker. The others are joined anew, if there are two. Whether that was in the middle of the text."""
    tag = f"joined{count}"
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        running = subprocess.Popen([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", "200",
                                    "--json-lines", *GREEDY, "--hosts", f"localhost:{count}", "--join"], stdout=out,
                                   stderr=err, env=environment(**settings(
                                       options, HEDDLE_MPI_TIMEOUT="4", HEDDLE_CLUSTER_TEST=f"{os.getpid()}.{tag}")))
        lines = []
        while len(lines) < 8 and running.poll() is None:
            time.sleep(0.005)
            lines = pathlib.Path(out.name).read_text().splitlines()
        victims = sorted(workers(tag))
        if len(victims) == count:
            kill(victims[1], how)
        is_in_time = len(pathlib.Path(out.name).read_text().splitlines()) < 150
        if not is_in_time:
            resume(victims[1:2])
        began = time.monotonic()
        running.wait(timeout=100)
        notes = pathlib.Path(err.name).read_text()
        lines = pathlib.Path(out.name).read_text().splitlines()
    resume(victims[1:2])  # it finds that it was given up, and leaves
    if not is_in_time:
        return False
    if len(victims) != count or not lines:
        fail(f"{tag}: {len(victims)} workers, {len(lines)} words: {notes}")
    said = json.loads(lines[-1])
    if running.returncode != 0 or said["ids"] != local["ids"]:
        fail(f"{tag}: status {running.returncode}, other words: {said}, not {local['text']!r}: {notes}")
    lost = [one["device"] for one in said["failed_devices"]]
    left = [name for name in (f"MPI{rank}:CPU" for rank in range(1, count + 1)) if name not in lost]
    if len(lost) != 1 or "nothing was heard of rank" not in notes:
        fail(f"{tag}: lost are {lost}: {notes}")
    if count > 2:
        expect_joined(said["placement"], left, tag)
    elif said["placement"]["joined"] or set(said["placement"]["layers"]) != set(left):
        fail(f"{tag}: afterwards layers are on {said['placement']}")
    print(f"{tag}: without {lost[0]} the text was whole {time.monotonic() - began:.1f} s later")
    return True
