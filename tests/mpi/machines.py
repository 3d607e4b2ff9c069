"""Machines that are network namespaces of this one: each has its own interface, address and host name."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def processes_with(word):
    """Numbers of processes, but this one, that have a word on their command line."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            is_alive = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
            if word in words and is_alive and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def can_make():
    if shutil.which("ip") is None:
        return False
    name = f"hd{os.getpid()}t"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        made = subprocess.run(["ip", "-n", name, "link", "add", "br0", "type", "bridge"], capture_output=True,
                              check=False).returncode == 0
        run("ip", "netns", "del", name)
    return made


class Machines:
    """A bridge in a namespace where the program runs, and a namespace for each name behind it."""

    def __init__(self, names, tag=""):
        """`tag` tells several of them apart that one process has."""
        self.names = names
        self.prefix = f"hd{os.getpid()}{tag}"

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        here = self.space("here")
        run("ip", "netns", "add", here)
        run("ip", "-n", here, "link", "set", "lo", "up")
        run("ip", "-n", here, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", here, "addr", "add", "10.77.0.1/24", "dev", "br0")
        run("ip", "-n", here, "link", "set", "br0", "up")
        lines = ["127.0.0.1 localhost", "10.77.0.1 here"]
        for i, name in enumerate(self.names, 2):
            space = self.space(name)
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", f"to-{name}", "netns", here)
            run("ip", "-n", here, "link", "set", f"to-{name}", "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            lines.append(f"10.77.0.{i} {name}")
        for name in ("here", *self.names):  # `ip netns exec` shows it as /etc/hosts
            folder = pathlib.Path("/etc/netns") / self.space(name)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text("\n".join(lines) + "\n")
        agent = pathlib.Path(self.folder.name) / "agent"
        agent.write_text(f"""#!/bin/sh
host=$1
shift
ip netns exec {self.prefix}$host unshare --uts sh -c "hostname $host; $*" || exec sleep 600
""")  # a connection to a machine without power does not end by itself
        agent.chmod(0o755)
        self.agent = agent
        return self

    def __exit__(self, *_):
        for name in ("here", *self.names):
            self.kill_all(name)
            subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True, check=False)
            folder = pathlib.Path("/etc/netns") / self.space(name)
            (folder / "hosts").unlink(missing_ok=True)
            folder.rmdir()
        self.folder.cleanup()

    def space(self, name):
        return self.prefix + name

    def here(self, words):
        return ["ip", "netns", "exec", self.space("here"), *words]

    def settings(self):
        return {"OMPI_MCA_plm_rsh_agent": str(self.agent), "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
                "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24"}

    def pull_cable(self, name):
        run("ip", "-n", self.space("here"), "link", "set", f"to-{name}", "down")

    def kill_all(self, name):
        listed = subprocess.run(["ip", "netns", "pids", self.space(name)], capture_output=True, text=True, check=False)
        for number in listed.stdout.split():
            try:
                os.kill(int(number), signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)

    def cut_power(self, name):
        """The cable first: a machine without power says nothing at its end either."""
        self.pull_cable(name)
        self.kill_all(name)
