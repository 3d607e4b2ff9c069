"""Workers with files of their own: the same as the program's, or others."""
import pathlib
import tempfile

from jobs import expect_no_worker_left, fail, own_file_worker, run_text


def digests(options, folder, local):
    """All of a file is compared: what differs is sent, and digests of both files are kept, each once."""
    content = bytearray(pathlib.Path(options.model).read_bytes())
    content[-1000] ^= 1
    other = pathlib.Path(folder) / "one_byte.gguf"
    other.write_bytes(content)
    worker = own_file_worker(options, folder, other)
    kept = pathlib.Path(folder) / "cache" / "heddle" / "digests.tsv"
    lines = []
    for _ in range(2):
        remote, notes = run_text(options, "--hosts", "localhost", HEDDLE_MPI_WORKER=worker, HEDDLE_MPI_VERIFY="full",
                                 XDG_CACHE_HOME=str(kept.parent.parent))
        if " differs from the file here in 1 of 1 blocks" not in notes or remote["ids"] != local["ids"]:
            fail(f"all of a file: {notes!r} {remote['text']!r}")
        lines.append(kept.read_text().splitlines())
    if len(lines[0]) != 3 or lines[1] != lines[0]:
        fail(f"digests: {lines}")


def files(options):
    """Weights are sent to a worker with another file, with a sentence, and not to one that starts on a full disk."""
    local, _ = run_text(options)
    with tempfile.TemporaryDirectory() as folder:
        content = bytearray(pathlib.Path(options.model).read_bytes())
        for name, sentence in (("cut", " bytes, not "), ("different", " differs from the file here between bytes ")):
            other = pathlib.Path(folder) / f"{name}.gguf"
            for i in range(1 << 16, len(content), 1 << 12):
                content[i] ^= 1 if name == "different" else 0
            other.write_bytes(content if name == "different" else content[:len(content) // 2])
            worker = own_file_worker(options, folder, other)
            if worker is None:
                print("no right to mount: other files are left out")
                return
            remote, notes = run_text(options, "--hosts", "localhost", HEDDLE_MPI_WORKER=worker)
            if sentence not in notes or "weights are sent instead" not in notes:
                fail(f"{name} file: no word of it: {notes!r}")
            if remote["ids"] != local["ids"]:
                fail(f"{name} file: other words: {remote['text']!r}")
        digests(options, folder, local)
        # Where nothing can be written, MPI does not start.
        full = pathlib.Path(folder) / "full"
        full.write_text("#!/bin/sh\nmount -t tmpfs -o size=16k none /dev/shm && mount -o bind,ro /tmp /tmp\n"
                        f"dd if=/dev/zero of=/dev/shm/all bs=4k 2> /dev/null\nexec {options.heddle} worker\n")
        full.chmod(0o755)
        remote, notes = run_text(options, "--hosts", "localhost", HEDDLE_MPI_WORKER=f"unshare -m {full}",
                                 HEDDLE_MPI_START_TIMEOUT="3")
        if "MPI: no worker on localhost after 3 s" not in notes or remote["ids"] != local["ids"]:
            fail(f"full disk: {notes!r} {remote['text']!r}")
    expect_no_worker_left()
