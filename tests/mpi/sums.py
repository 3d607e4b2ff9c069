"""Workers that add up what they have, by MPI and in the order of devices."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from jobs import environment, expect_no_worker_left, fail, together, workers


def sums(options):
    """Sums over workers by MPI and in order: right, the same on all; a worker that is killed ends them with a sentence."""
    worker = f"{options.heddle} worker --device CPU --threads 1"

    def adds(way, count, **more):
        done = subprocess.run([options.sums, str(count)], capture_output=True, text=True, timeout=100,
                              env=environment(HEDDLE_MPI_HOSTS=f"localhost:{count}", HEDDLE_MPI_WORKER=worker,
                                              HEDDLE_MPI_SUM=way, **more))
        print(way, done.stdout, done.stderr)
        if done.returncode != 0 or done.stdout.count("the same on all") != 3 or "order of devices" in done.stderr:
            fail(f"sums over {count}, {way}: status {done.returncode}: {done.stderr}")

    for way, count in (("ordered", 2), ("mpi", 2), ("mpi", 4)):
        adds(way, count)

    def loses_one(way, how):
        with tempfile.NamedTemporaryFile() as out:
            tag = f"{way}.{how.name}"
            running = subprocess.Popen([options.sums, "3", "until-lost"], stdout=out, stderr=subprocess.DEVNULL,
                                       env=environment(HEDDLE_MPI_HOSTS="localhost:3", HEDDLE_MPI_WORKER=worker,
                                                       HEDDLE_MPI_SUM=way, HEDDLE_MPI_TIMEOUT="2",
                                                       HEDDLE_CLUSTER_TEST=f"{os.getpid()}.{tag}"))
            while os.path.getsize(out.name) == 0 and running.poll() is None:
                time.sleep(0.01)
            victims = workers(tag)
            if len(victims) != 3:
                fail(f"{tag}: {len(victims)} workers: {pathlib.Path(out.name).read_text()}")
            os.kill(victims[1], how)
            began = time.monotonic()
            running.wait(timeout=60)
            took = time.monotonic() - began
            said = pathlib.Path(out.name).read_text()
            if how == signal.SIGSTOP:
                os.kill(victims[1], signal.SIGCONT)
        print(f"{tag}: {took:.1f} s: {said}")
        ends = [line for line in said.splitlines() if line.startswith("worker ") and " lost" in line]
        if running.returncode != 0 or len(ends) != 3 or "nothing was heard of rank" not in said:
            fail(f"{tag}: status {running.returncode}: {said}")
        if took > 15:  # a timeout of 2 s, 2 s for goodbyes, on a busy machine
            fail(f"{tag}: took {took:.1f} s")
        expect_no_worker_left(tag)

    def misses_one():
        """A worker that is gone when all others are inside MPI to form a group: they give up, and so does the program."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "worker"
            script.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec {options.liar} absent\nexec {worker}\n')
            script.chmod(0o755)
            # Files, not pipes: a worker that did not end as it should keeps MPI's daemon, and that a pipe, open.
            with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
                began = time.monotonic()
                done = subprocess.run([options.sums, "3", "until-lost"], stdout=out, stderr=err, timeout=60, check=False,
                                      env=environment(HEDDLE_MPI_HOSTS="localhost:3", HEDDLE_MPI_WORKER=str(script),
                                                      HEDDLE_MPI_SUM="mpi", HEDDLE_MPI_TIMEOUT="2",
                                                      HEDDLE_CLUSTER_TEST=f"{os.getpid()}.absent"))
                took = time.monotonic() - began
                said, notes = pathlib.Path(out.name).read_text(), pathlib.Path(err.name).read_text()
        print(f"absent: {took:.1f} s: {said} {notes}")
        if done.returncode != 0 or said.count("not begun: sum: MPI1: lost: ") != 3 or took > 20 or any(
                f"MPI{rank}: lost: nothing was heard" not in notes for rank in (1, 2, 3)):
            fail(f"absent: status {done.returncode} after {took:.1f} s: {said} {notes}")
        expect_no_worker_left("absent")

    together(lambda lose, *case: lose(*case),
             [(misses_one,), *((loses_one, *case) for case in (("mpi", signal.SIGKILL), ("mpi", signal.SIGSTOP),
                                                               ("ordered", signal.SIGKILL)))])
    expect_no_worker_left()
