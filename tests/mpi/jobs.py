"""Programs with workers, as tests start them and look after them."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77
PROMPT = "Once upon a time there was a little"
GREEDY = ("--temperature", "0")  # the same words each time


def fail(sentence):
    sys.exit(f"cluster_test: {sentence}")


def environment(**more):
    """That of the test, with settings for many ranks on few cores."""
    settings = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HEDDLE_MPI_TIMEOUT": "5"}
    return {**os.environ, **settings, **more}


def run_text(options, *words, count=24, **more):
    """What `heddle run` wrote as JSON, and its notes."""
    done = subprocess.run([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", str(count), "--json",
                           *GREEDY, *words], capture_output=True, text=True, timeout=200, env=environment(**more))
    if done.returncode != 0:
        fail(f"heddle run {' '.join(words)}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout), done.stderr


def together(check, cases):
    """Checks cases at the same time: most of it is waiting."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(cases)) as pool:
        for result in [pool.submit(check, *case) for case in cases]:
            result.result()


def kill(process, how):
    """Sends a signal to a process that may have ended."""
    try:
        os.kill(process, how)
    except ProcessLookupError:
        pass


def resume(processes):
    """Lets those go on that were stopped."""
    for process in processes:
        kill(process, signal.SIGCONT)


def until_in_time(tag, lose_one):
    """Calls `lose_one` until it loses a worker in the middle of a text: a machine that stalls looks when all is there."""
    for _ in range(10):
        if lose_one():
            return
        expect_no_worker_left(tag)
    fail(f"{tag}: ten texts ended before a worker was lost")


def workers(tag=""):
    """Processes `heddle worker` that this test's programs started, or those of them with such a tag."""
    found = []
    mark = f"HEDDLE_CLUSTER_TEST={os.getpid()}.{tag}".encode()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            settings = (folder / "environ").read_bytes().split(b"\0")
            if any(each.startswith(mark) for each in settings) and b"worker" in words and (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def expect_no_worker_left(tag=""):
    for _ in range(150):
        if not workers(tag):
            return
        time.sleep(0.1)
    fail(f"workers {workers(tag)} are left behind")


def own_file_worker(options, folder, other):
    """A command for a worker that sees another file where the model is; None without the right to arrange it."""
    script = pathlib.Path(folder) / "worker"
    script.write_text(f"#!/bin/sh\nmount --bind {other} {options.model} && exec {options.heddle} worker\n")
    script.chmod(0o755)
    allowed = subprocess.run(["unshare", "-m", "mount", "--bind", other, options.model], capture_output=True,
                             check=False).returncode == 0
    return f"unshare -m {script}" if allowed else None


def opens_no_socket(options):
    """Sockets are MPI's own: neither the plug-in nor the program can make one."""
    if shutil.which("nm") is None:
        print("there is no nm: sockets are left out")
        return
    for file in (options.plugin, options.heddle):
        listed = subprocess.run(["nm", "-D", "--undefined-only", file], capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
        found = names & {"socket", "bind", "listen", "accept", "accept4", "connect", "getaddrinfo"}
        if found or not names:
            fail(f"{file} calls {found or 'nothing at all'}")
