"""Devices of other ranks, as programs meet them.

    cluster_test.py PART --heddle FILE --conformance FILE --liar FILE --same-bits FILE --sums FILE
                    --own-mpi FILE --plain-client FILE --plugin FILE --model FILE

PART is one of the functions below. Exit status 77: there is no MPI here, or no right to do what the part needs.
"""
import argparse
import csv
import functools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import machines as network
from jobs import (GREEDY, PROMPT, SKIPPED, environment, expect_no_worker_left, fail, kill, opens_no_socket, resume,
                  run_text, together, until_in_time, workers)
from own_files import files
from own_mpi import own_mpi
from joined import joined
from sums import sums


def run_conformance(options, **more):
    done = subprocess.run([options.conformance, "--gtest_filter=*MPI*", "--gtest_brief=1"], capture_output=True,
                          text=True, timeout=250, env=environment(HEDDLE_CONFORMANCE_DEVICES="MPI1:CPU,MPI2:SIM0",
                                                                  **more))
    print(done.stdout[-3000:])
    if done.returncode != 0 or "not here" in done.stdout:
        fail(f"status {done.returncode}: {done.stderr[-2000:]}")


def threads(options):
    """The conformance suite over ranks that are threads: needs no MPI."""
    run_conformance(options, HEDDLE_BACKENDS="sim,mpi:threads=2,devices=CPU+SIM0")


def conformance(options):
    """The same over processes that MPI starts."""
    run_conformance(options, HEDDLE_MPI_HOSTS="localhost:2",
                    HEDDLE_MPI_WORKER=f"{options.heddle} worker --device CPU --device sim")
    expect_no_worker_left()


def clients(options):
    """A C program that knows only ggml's headers finds devices of other ranks in the registry, and none unasked."""
    worker = f"{options.heddle} worker --threads 1 --budget CPU=64M --files {os.path.dirname(options.model)}"
    for variables, count in (({}, 0), ({"HEDDLE_MPI": "0", "HEDDLE_MPI_HOSTS": "localhost"}, 0),
                             ({"HEDDLE_MPI_HOSTS": "localhost:2", "HEDDLE_MPI_WORKER": worker}, 2),
                             ({"HEDDLE_MPI_HOSTS": "localhost", "GGML_BACKEND_PATH": options.plugin}, 1)):
        done = subprocess.run([options.plain_client, str(count)], capture_output=True, text=True, timeout=60,
                              env=environment(**variables))
        print(variables, done.stdout)
        if done.returncode != 0 or done.stdout.count("the same values") != (count + 1 if count else 0):
            fail(f"{variables}: status {done.returncode}: {done.stderr}")
    for order, local_first in (("", False), ("first", False), ("last", True)):
        done = subprocess.run([options.plain_client, "1"], capture_output=True, text=True, timeout=60,
                              env=environment(HEDDLE_MPI_HOSTS="localhost", HEDDLE_MPI_WORKER=worker, HEDDLE_MPI_ORDER=order,
                                              HEDDLE_BACKENDS="sim"))
        names = next((line.split()[1:] for line in done.stdout.splitlines() if line.startswith("order:")), [])
        best = "SIM0" if local_first else "MPI1:CPU"
        if (done.returncode != 0 or not {"SIM0", "MPI1:CPU"} <= set(names) or f"best: {best}\n" not in done.stdout
                or (names.index("SIM0") < names.index("MPI1:CPU")) != local_first
                or (names[-1] == "MPI1:CPU") != local_first):
            fail(f"HEDDLE_MPI_ORDER={order}: status {done.returncode}: {done.stdout} {done.stderr}")
    opens_no_socket(options)
    expect_no_worker_left()


def tokens(options):
    """The same words as without other ranks, over one and two workers, and under mpirun."""
    local, _ = run_text(options)
    for hosts in ("localhost", "localhost:2"):
        remote, notes = run_text(options, "--hosts", hosts)
        places = set(remote["placement"]["layers"])
        if not any(place.startswith("MPI1") for place in places):
            fail(f"--hosts {hosts}: layers are on {places}: {notes}")
        if hosts.endswith("2") and not any(place.startswith("MPI2") for place in places):
            fail(f"--hosts {hosts}: nothing is on the second worker: {places}")
        if remote["ids"] != local["ids"]:
            fail(f"--hosts {hosts}: other words: {remote['text']!r}, not {local['text']!r}")
        if "mca_btl" in notes:
            fail(f"--hosts {hosts}: MPI itself says {notes}")
    line = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", "1", options.heddle, "run", options.model,
            "--prompt", PROMPT, "--tokens", "24", "--json", *GREEDY, ":", "-n", "2", options.heddle, "worker", "--threads", "1",
            "--keep-binding"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, env=environment())
    if done.returncode != 0 or json.loads(done.stdout)["ids"] != local["ids"]:
        fail(f"under mpirun: status {done.returncode}: {done.stderr} {done.stdout}")
    expect_no_worker_left()


def faults(options):
    """A worker is killed, then one is stopped, in the middle of a text: the text goes on with the same words."""
    count = 400
    local = subprocess.run([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", str(count),
                            "--quiet", *GREEDY], capture_output=True, text=True, timeout=100, check=True).stdout

    def lose_one(how):
        """Whether that was in the middle."""
        # Files, not pipes: a worker that is stopped keeps MPI's daemon, and that a pipe, open.
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            running = subprocess.Popen([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", str(count),
                                        "--quiet", *GREEDY, "--hosts", "localhost:2"], stdout=out, stderr=err,
                                       env=environment(HEDDLE_MPI_TIMEOUT="4",
                                                       HEDDLE_CLUSTER_TEST=f"{os.getpid()}.{how.name}"))
            while os.path.getsize(out.name) < len(PROMPT) + 40 and running.poll() is None:
                time.sleep(0.005)
            victims = workers(how.name)
            if len(victims) == 2:
                kill(victims[0], how)
            is_in_time = os.path.getsize(out.name) + 100 < len(local.encode())  # more than the words on their way
            if not is_in_time:
                resume(victims[:1])
            began = time.monotonic()
            running.wait(timeout=100)
            said = pathlib.Path(out.name).read_text()
            notes = pathlib.Path(err.name).read_text()
        resume(victims[:1])  # it finds that it was given up, and leaves
        if not is_in_time:
            return False
        if len(victims) != 2:
            fail(f"{how.name}: {len(victims)} workers: {notes}")
        if running.returncode != 0:
            fail(f"{how.name}: status {running.returncode}: {notes}")
        if "nothing was heard of rank" not in notes:
            fail(f"{how.name}: the loss is not told: {notes!r} after {time.monotonic() - began:.1f} s")
        if said != local:
            fail(f"{how.name}: other words: {said!r}, not {local!r}")
        print(f"{how.name}: the text was whole {time.monotonic() - began:.1f} s later")
        expect_no_worker_left(how.name)
        return True

    together(until_in_time, [(how.name, functools.partial(lose_one, how)) for how in (signal.SIGKILL, signal.SIGSTOP)])


def refusals(options):
    """Hosts that are none, a worker that is none, a wish that is none: a sentence, and local devices remain."""
    def refused(variables, sentence):
        began = time.monotonic()
        done = subprocess.run([options.heddle, "devices"], capture_output=True, text=True, timeout=60,
                              env=environment(**variables))
        if done.returncode != 0 or "CPU" not in done.stdout or sentence not in done.stderr:
            fail(f"{variables}: status {done.returncode}: {done.stdout} {done.stderr}")
        if time.monotonic() - began > 20:
            fail(f"{variables}: took {time.monotonic() - began:.0f} s")

    here = {"HEDDLE_MPI_HOSTS": "localhost"}
    together(refused, [
        ({"HEDDLE_MPI_HOSTS": "n1:x"}, "'n1:x' is no host such as n1 or n1:2"),
        ({**here, "HEDDLE_MPI_TIMEOUT": "soon"}, "HEDDLE_MPI_TIMEOUT=soon is no number of seconds"),
        ({"HEDDLE_BACKENDS": "mpi:threads=2", "HEDDLE_MPI_TIMEOUT": "soon"}, "HEDDLE_MPI_TIMEOUT=soon is no number of seconds"),
        ({**here, "HEDDLE_MPI_SUM": "nccl"}, "HEDDLE_MPI_SUM=nccl: this build has no sums by NCCL"),
        ({**here, "HEDDLE_MPI_ORDER": "middle"}, "HEDDLE_MPI_ORDER=middle: there are first and last"),
        ({**here, "HEDDLE_MPI_VERIFY": "no"}, "HEDDLE_MPI_VERIFY=no: there are sample, full and off"),
        ({**here, "HEDDLE_MPI_DIGESTS": "no"}, "HEDDLE_MPI_DIGESTS=no: there are auto, always and never"),
        ({**here, "HEDDLE_MPI_GRAPH_TIMEOUT": "-1"}, "HEDDLE_MPI_GRAPH_TIMEOUT=-1 is no number of seconds"),
        # A name that no machine has (RFC 2606), a program that is not there, and an option that is none.
        ({"HEDDLE_MPI_HOSTS": "nowhere.invalid", "HEDDLE_MPI_START_TIMEOUT": "2"}, "MPI: "),
        ({**here, "HEDDLE_MPI_WORKER": "/no/such/program", "HEDDLE_MPI_START_TIMEOUT": "3"}, "MPI: ")])
    for words, sentence in (("--budget CPU", "give a device and a size, such as CPU=8G"),
                            ("--budget XPU=1G", "no such device is served"), ("--files /no/such", "/no/such")):
        done = subprocess.run([options.heddle, "worker", "--describe", *words.split()], capture_output=True, text=True,
                              timeout=30, env=environment(), check=False)
        if done.returncode == 0 or sentence not in done.stderr + done.stdout:
            fail(f"worker {words}: status {done.returncode}: {done.stderr} {done.stdout}")
    listed = subprocess.run([options.heddle, "launch", "--hosts", "localhost", "--check"], capture_output=True,
                            text=True, timeout=30, env=environment(), check=False)
    if listed.returncode != 0 or "workers of Heddle" not in listed.stdout:
        fail(f"launch --check: {listed.stdout} {listed.stderr}")
    line = subprocess.run([options.heddle, "launch", "--hosts", "n1,n2:2", "--mpirun", "--", "./a", "it's", "-p=x"],
                          capture_output=True, text=True, timeout=30, env=environment(), check=False).stdout
    if line != ("mpirun --bind-to none --host localhost:1,n1:1,n2:2 -n 1 ./a 'it'\\''s' -p=x : -n 3 heddle worker\n"):
        fail(f"launch --mpirun printed {line!r}")
    many = subprocess.run([options.heddle, "launch", "--hosts", "n1:2x", "--check"], capture_output=True, text=True,
                          timeout=30, env=environment(), check=False)
    if many.returncode != 1 or "'n1:2x' is no host such as n1 or n1:2" not in many.stderr:
        fail(f"launch --hosts n1:2x: status {many.returncode}: {many.stderr}")
    alone = subprocess.run([options.heddle, "worker"], capture_output=True, text=True, timeout=60, env=environment())
    if alone.returncode != 1 or "rank 0 is the program, not a worker" not in alone.stderr:
        fail(f"a worker without a job: status {alone.returncode}: {alone.stderr}")


def bits(options):
    """The same logits, bit by bit, over one and two workers, and over two that are joined; and those of a layer alone."""
    for transport in ("self,tcp",):
        done = subprocess.run([options.same_bits, options.model], capture_output=True, text=True, timeout=100,
                              env=environment(HEDDLE_MPI_HOSTS="localhost:2", OMPI_MCA_btl=transport,
                                              HEDDLE_MPI_WORKER=f"{options.heddle} worker --threads 1"))
        print(done.stdout)
        if done.returncode != 0 or done.stdout.count("the same bits") != 4:
            fail(f"{transport}: status {done.returncode}: {done.stderr}")
    # Processes of one job may share memory; those that a program starts itself may not, in Open MPI 4.
    line = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", "1", options.same_bits, options.model, ":", "-n",
            "2", options.heddle, "worker", "--threads", "1"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100, env=environment(OMPI_MCA_btl="self,vader"))
    if done.returncode != 0 or done.stdout.count("the same bits") != 4:
        fail(f"shared memory: status {done.returncode}: {done.stderr} {done.stdout}")
    expect_no_worker_left()


def bench(options):
    """The figures, beside MPI's own; and what a worker that has nothing to do takes of a core."""
    done = subprocess.run([options.heddle, "bench", "cluster", "--hosts", "localhost:2", "--quick", "--json", "--model",
                           options.model], capture_output=True, text=True, timeout=100, env=environment())
    rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
    known = {row["figure"] for row in rows}
    if not {"set", "get", "set, fence", "known graph, fence", "worker to worker", "sum", "load from files",
            "token"} <= known:
        fail(f"status {done.returncode}, figures {known}: {done.stderr}")
    loads = [row for row in rows if row["figure"] == "load: bytes sent"]
    size = os.path.getsize(options.model)
    print("bytes sent to load a model of", size, "bytes:", [row["bytes"] for row in loads])
    if len(loads) != 2 or any(row["bytes"] > size / 100 for row in loads):  # commands and graphs, no weights
        fail(f"weights were sent: {loads}")
    for row in rows:
        if row not in loads and not (row["mpi_seconds"] or row["mpi_bytes_per_second"]) or not row["seconds"] > 0:
            fail(f"nothing of MPI beside {row}")
    # Ranks that are threads have no MPI beside them.
    table = subprocess.run([options.heddle, "bench", "cluster", "--quick", "--csv"], capture_output=True, text=True,
                           timeout=100, env=environment(HEDDLE_BACKENDS="mpi:threads=1,devices=CPU"), check=False).stdout
    if len(table.splitlines()) < 5 or len({len(line) for line in csv.reader(table.splitlines())}) != 1:
        fail(f"no table of values with commas between them: {table}")
    alone = subprocess.run([options.heddle, "bench", "cluster", "--quick"], capture_output=True, text=True, timeout=60,
                           env=environment(HEDDLE_MPI="0"), check=False)
    if alone.returncode != 1 or "there are no workers; give --hosts" not in alone.stderr:
        fail(f"without workers: status {alone.returncode}: {alone.stderr}")
    idle(options)
    expect_no_worker_left()


def idle(options):
    """A worker is idle while the program is stopped in the middle of a text."""
    running = subprocess.Popen([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", "400", "--quiet",
                                *GREEDY, "--hosts", "localhost"], stdout=subprocess.PIPE, bufsize=0, env=environment())
    said = b""
    while len(said) < len(PROMPT) + 40:
        said += running.stdout.read(8)
    running.send_signal(signal.SIGSTOP)
    time.sleep(1)
    stat = pathlib.Path(f"/proc/{workers()[0]}/stat")

    def ticks():
        return sum(int(word) for word in stat.read_text().rsplit(")", 1)[1].split()[11:13])

    before = ticks()
    time.sleep(3)
    share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / 3
    print(f"an idle worker takes {share:.1%} of a core")
    running.send_signal(signal.SIGCONT)
    running.communicate(timeout=60)
    if running.returncode != 0:
        fail(f"after the stop: status {running.returncode}")
    if share > 0.05:  # 2 % is the goal; ticks of 10 ms and a busy machine blur it
        fail(f"an idle worker takes {share:.1%} of a core")


def trace(options):
    """One trace: a process for each rank, a track for each stream, arrows for transfers."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        done = subprocess.run([options.heddle, "explain", options.model, "--hosts", "localhost:2", "--run", "--tokens",
                               "8", "--trace", path], capture_output=True, text=True, timeout=100, env=environment())
        if done.returncode != 0:
            fail(f"explain: status {done.returncode}: {done.stderr}")
        events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    ranks = {name for name in names if name.startswith("rank ")}
    if len(ranks) != 2 or "measured" not in names:
        fail(f"processes {names}")
    spans = [event for event in events if event.get("cat") == "worker"]
    if not {"compute", "receive", "send"} <= {span["name"] for span in spans}:
        fail(f"spans {[span['name'] for span in spans]}")
    if len({span["pid"] for span in spans}) != 2 or any(span["args"]["clock_error_us"] <= 0 for span in spans):
        fail("spans are not of two processes, or their clocks have no error")
    begins = {event["id"]: event for event in events if event.get("cat") == "transfer" and event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event.get("cat") == "transfer" and event["ph"] == "f"}
    if not begins or begins.keys() != ends.keys():
        fail(f"arrows begin at {begins.keys()} and end at {ends.keys()}")
    for number, begin in begins.items():
        slack = 2 * max(span["args"]["clock_error_us"] for span in spans)
        if begin["pid"] == ends[number]["pid"] or begin["ts"] > ends[number]["ts"] + slack:
            fail(f"arrow {number} goes from {begin} to {ends[number]}")
    expect_no_worker_left()


def liars(options):
    """Workers that are none: each ends with its sentence, in time and without memory; the text is that of one rank."""
    local, _ = run_text(options)

    def lie(way, sentence):
        timeout = 5 if way == "huge" else 1  # sanitizers take a while for 2 GiB, and nothing else is heard meanwhile
        began = time.monotonic()
        running = subprocess.Popen([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", "24",
                                    "--json", *GREEDY, "--hosts", "localhost"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env=environment(HEDDLE_MPI_WORKER=f"{options.liar} {way}",
                                                   HEDDLE_MPI_TIMEOUT=str(timeout), HEDDLE_MPI_START_TIMEOUT="2"))
        text, notes = running.communicate(timeout=60)
        took = time.monotonic() - began
        print(f"{way}: {took:.1f} s: {notes.strip().splitlines()[:1]}")
        if sentence not in notes:
            fail(f"{way}: not told: {notes!r}")
        if running.returncode == 0 and json.loads(text)["ids"] != local["ids"]:
            fail(f"{way}: other words: {text}")
        if took > 15:  # starting, a timeout and 2 s, and the text itself on a busy machine
            fail(f"{way}: took {took:.1f} s")

    together(lie, [("huge", "a message of 2147483647 bytes, more than "),
                   ("garbage", "a message that is not Heddle's"),
                   ("foreign", "it sent an answer to what it was not asked"),
                   ("nothing", "nothing was heard of rank 1"),
                   ("gone", "nothing was heard of rank 1")])
    # These are about the time a start takes, which others would take from them.
    together(lie, [("version", "refused: it has Heddle 0.0.1 with op table "),
                   ("late", "no worker is there after 2 s")])
    most = 1 << 20  # KiB; a message of 2 GiB would be more
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > most:
        fail(f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss} KiB were taken")
    for _ in range(100):
        if not network.processes_with(options.liar):
            return
        time.sleep(0.1)
    fail("liars are left behind")


def machines(options):
    """Three machines that are network namespaces: words, then a cable pulled and a power cut in the middle of a text."""
    if os.geteuid() != 0 or not network.can_make():
        print("no right to make network namespaces, or no program ip (Debian: iproute2)")
        sys.exit(SKIPPED)
    count = 400
    local = subprocess.run([options.heddle, "run", options.model, "--prompt", PROMPT, "--tokens", str(count),
                            "--quiet", *GREEDY], capture_output=True, text=True, timeout=100, check=True).stdout

    def lose_n2(fault):
        with network.Machines(("n1", "n2"), fault) as hosts:
            settings = environment(HEDDLE_MPI_TIMEOUT="1", HEDDLE_MPI_WORKER=f"{options.heddle} worker",
                                   HEDDLE_CLUSTER_TEST=f"{os.getpid()}.{fault}", **hosts.settings())
            # Files, not pipes: what is left on the other side of the cable keeps a pipe open.
            with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
                running = subprocess.Popen(hosts.here([options.heddle, "run", options.model, "--prompt", PROMPT,
                                                       "--tokens", str(count), "--quiet", *GREEDY, "--hosts",
                                                       "n1,n2"]), stdout=out, stderr=err, env=settings)
                while os.path.getsize(out.name) < len(PROMPT) + 40 and running.poll() is None:
                    time.sleep(0.02)
                began = time.monotonic()
                if fault == "cable":
                    hosts.pull_cable("n2")
                else:
                    hosts.cut_power("n2")
                running.wait(timeout=60)
                said = pathlib.Path(out.name).read_text()
                notes = pathlib.Path(err.name).read_text()
            if "nothing was heard of rank" not in notes:
                fail(f"{fault}: the loss is not told: {notes}")
            if running.returncode != 0 or said != local:
                fail(f"{fault}: status {running.returncode}: {said!r} {notes}")
            print(f"{fault}: the text was whole {time.monotonic() - began:.1f} s later")
        expect_no_worker_left(fault)

    together(lose_n2, [("cable",), ("power",)])


def main():
    parts = {part.__name__: part for part in (threads, conformance, clients, tokens, joined, bits, sums, files, bench, trace, faults,
                                              refusals, liars, machines, own_mpi)}
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=parts)
    for name in ("heddle", "conformance", "liar", "same-bits", "sums", "own-mpi", "plain-client", "plugin", "model"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    if options.part != "threads" and shutil.which("mpirun") is None:
        print("there is no MPI here")
        sys.exit(SKIPPED)
    os.environ["HEDDLE_CLUSTER_TEST"] = f"{os.getpid()}."
    parts[options.part](options)


if __name__ == "__main__":
    main()
