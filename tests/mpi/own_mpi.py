"""A program that uses MPI itself."""
import subprocess
import time

from jobs import environment, fail


def own_mpi(options):
    """A program that uses MPI itself keeps its messages and its settings, and ends MPI when it likes."""
    line = ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", "1", options.own_mpi, "program", ":", "-n", "2",
            options.own_mpi, "worker"]
    narrow = subprocess.run([*line[:6], options.own_mpi, "narrow"], capture_output=True, text=True, timeout=60, env=environment())
    if narrow.returncode != 0 or "began it with MPI_THREAD_SERIALIZED" not in narrow.stdout:
        fail(f"of one thread at a time: status {narrow.returncode}: {narrow.stdout} {narrow.stderr}")
    began = time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment())
    print(done.stdout)
    if (done.returncode != 0 or done.stdout.count("the same values") != 2 or "own MPI has ended" not in done.stdout
            or done.stderr):
        fail(f"status {done.returncode}: {done.stderr}")
    if time.monotonic() - began > 20:  # of seconds to start and to end
        fail(f"took {time.monotonic() - began:.1f} s")
