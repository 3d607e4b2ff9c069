"""What `--help` promises, as commands that are run: an entry for every option of every command.

Each entry is the words of a command line and what shows that the option did what its help says. MODEL is the model that
ships, CHAT the same with a chat template, TEXT a text, SIM the plug-in `sim`, GOLDEN recorded cases. Files are written to a
directory of the run's own.
"""

import re

TALE = "Once upon a time there was a king who"
# The likeliest words, which are the same whatever else is said.
LIKELIEST = ["run", "MODEL", "-p", TALE, "-n", "8", "--json", "--temperature", "0"]
DRAWN = ["run", "MODEL", "-p", TALE, "-n", "8", "--json"]
EXPLAIN = ["explain", "MODEL", "--json"]
OPS = ["bench", "ops", "ADD", "--quick", "-t", "1"]
BENCH_MODEL = ["bench", "model", "MODEL", "--quick", "-t", "1", "--prompt-tokens", "8"]
COMPARE = ["bench", "compare", "--quick", "-t", "1", "--against", "CPU"]


# Options to whose sentence a command may add something of its own, and why. All others say the same in all commands.
ADDS = {
    "--batch": ("Tokens of a prompt to read at a time", "what depends on it differs"),
    "--device": ("Devices to use, such as CUDA0,CUDA1 or CPU", "bench ops takes one only, verify also files"),
    "--html": ("Write an HTML page", "what is on it"),
    "--isa": ("Instruction set of the processor's kernels, such as AVX2", "verify tries all of them"),
    "--prompt": ("Prompt for the model", "there are other ways to give it in run, and verify takes several"),
    "--shape": ("Shape of a model without a file", "which there are"),
    "--threads": ("Threads of the processor", "benchmarks and verify try several"),
    "--tokens": ("Tokens to generate", "what becomes of them"),
    "--type": ("Type of the weights, such as Q4_0 or F16", "benchmarks take several, explain only with a shape"),
    "--verbose": ("Show more", "what that is"),
}


class Promise:
    def __init__(self, words, check, status=0, stdin="", stop_after=None):
        self.words, self.check, self.status = words, check, status
        self.stdin, self.stop_after = stdin, stop_after  # seconds, then Ctrl-C


def says(pattern):
    """Somewhere in what it prints."""
    return lambda done: re.search(pattern, done.out + done.err)


def hides(pattern):
    return lambda done: not re.search(pattern, done.out + done.err)


def gives(look):
    """Of the JSON that it prints."""
    return lambda done: look(done.json())


def writes(name, pattern):
    return lambda done: re.search(pattern, done.file(name))


def alike(words, key="ids"):
    """That part of the JSON is as with other words."""
    return lambda done: done.json()[key] == done.other(words).json()[key]


def unlike(words, key="ids"):
    return lambda done: done.json()[key] != done.other(words).json()[key]


def writes_unlike(name, words):
    """The file that it writes is another one with other words, which write it again."""
    def look(done):
        written = done.bytes(name)
        done.other(words)
        return written != done.bytes(name)
    return look


def passed(done):
    return int(re.search(r"(\d+) passed, 0 failed", done.out)[1])


def refused(words, pattern):
    return Promise(words, says(pattern), status=2)


def text(more, check, **how):
    return Promise(["run", "MODEL", "-n", "4", "--temperature", "0", *more], check, **how)


def likeliest(more, check):
    return Promise([*LIKELIEST, *more], check)


def compute_of(device):
    return lambda all: next(m["compute"] for m in all["memory"] if m["device"] == device)


def peak_below(words):
    mine = compute_of("CPU")
    return lambda done: mine(done.json()) < mine(done.other(words).json())


def on_devices(command):
    """What every command that runs a model takes; `command` prints JSON."""
    return {
        "-d": Promise([*command, "-d", "sim"], gives(lambda all: all["placement"]["layers"][0] == "SIM0")),
        "--budget": Promise([*command, "-d", "sim", "--budget", "SIM0=12M"],
                            gives(lambda all: {"SIM0", "CPU"} == set(all["placement"]["layers"]))),
        "--join": Promise([*command, "-d", "sim:devices=2", "--join"],
                          gives(lambda all: all["placement"]["joined"] == ["SIM0", "SIM1"])),
        "--policy": Promise([*command, "--policy", "luck"], says("rules"), status=2),
        "-t": refused([*command, "-t", "0"], "--threads: '0' is not a whole number from 1 to 4096"),
        "--isa": Promise([*command, "--isa", "ABACUS"], says("ABACUS.*EMU128|ABACUS.*AVX"), status=1),
        "--mapped": Promise([*command, "--mapped"], gives(lambda all: all["placement"]["output"] == "CPU")),
        "--no-fusion": Promise([*command, "--no-fusion"], gives(lambda all: all["placement"]["output"] == "CPU")),
    }


def bench_output(command, picture=False):
    found = {
        "--json": Promise([*command, "--json"], gives(lambda all: all["rows"])),
        "--csv": Promise([*command, "--csv"], says(r"(?m)^[\w ]+,[\w ,]+$")),
    }
    if picture:
        found["--svg"] = Promise([*command, "--svg", "out.svg"], writes("out.svg", "^<svg"))
        found["--html"] = Promise([*command, "--html", "out.html"], writes("out.html", "<table"))
    return found


def common_bench(command, picture=False):
    return {
        "-t": Promise([*command, "--json"], gives(lambda all: {row["threads"] for row in all["rows"]} == {1})),
        "--quick": Promise(command, says(r"\n")),
        **bench_output(command, picture),
    }


RUN = {
    "-p": text(["-p", TALE, "-q"], says("^" + TALE + " had")),
    "-f": text(["-f", "prompt.txt", "-q"], says("^" + TALE + " had")),
    "-n": likeliest(["-n", "3"], gives(lambda all: len(all["ids"]) == 3)),
    "-i": text(["-i"], says("/clear +start again"), stdin=TALE + "\n/help\n"),
    "--chat": Promise(["run", "CHAT", "-p", "a", "--chat", "-n", "1", "--json"],
                      unlike(["run", "CHAT", "-p", "a", "--no-chat", "-n", "1", "--json"], "prompt_ids")),
    "--no-chat": Promise(["run", "CHAT", "-p", "a", "--no-chat", "-n", "1", "--json"],
                         alike(["run", "MODEL", "-p", "a", "-n", "1", "--json"], "prompt_ids")),
    "--system": Promise(["run", "CHAT", "-p", "a", "--system", "Be kind.", "-n", "1", "--json"],
                        unlike(["run", "CHAT", "-p", "a", "-n", "1", "--json"], "prompt_ids")),
    "--stop": text(["-p", TALE, "--stop", " had"], says("stopped by --stop")),
    "--temperature": text(["-p", TALE], hides("; seed ")),
    "--top-k": Promise([*DRAWN, "--temperature", "2", "--top-k", "1"], alike(LIKELIEST)),
    "--top-p": Promise([*DRAWN, "--temperature", "2", "--top-p", "0.0001"], alike(LIKELIEST)),
    "--min-p": Promise([*DRAWN, "--temperature", "2", "--min-p", "1"], alike(LIKELIEST)),
    "--repeat-penalty": likeliest(["--repeat-penalty", "50"], unlike(LIKELIEST)),
    "--seed": Promise([*DRAWN, "--seed", "5"], lambda done: done.json()["sampling"]["seed"] == 5
                      and alike([*DRAWN, "--seed", "5"])(done)),
    "-c": text(["-p", TALE, "-c", "12", "-n", "99"], says("the context of 12 tokens is full")),
    "--batch": likeliest(["--batch", "3"], alike(LIKELIEST)),
    **on_devices(LIKELIEST),
    "--json": likeliest([], gives(lambda all: all["finish"] == "length")),
    "--json-lines": text(["-p", TALE, "--json-lines"], lambda done: len(done.out.splitlines()) > 2),
    "--explain": text(["-p", TALE, "--explain"], says("nodes in 1 split")),
    "--html": text(["-p", TALE, "--html", "run.html"], writes("run.html", "tales-7m-q8_0.gguf")),
    "-q": text(["-p", TALE, "-q"], hides("prefill")),
}

EXPLAIN_OPTIONS = {
    "--shape": Promise(["explain", "--shape", "70B", "--json"], gives(lambda all: len(all["placement"]["layers"]) == 80)),
    "--type": Promise(["explain", "--shape", "8B", "--type", "Q4_K_M"], says("^8B of Q4_K_M: 1 token at a time")),
    "--read": Promise([*EXPLAIN, "--read", "3"], gives(lambda all: all["tokens"] == 3)),
    "--batch": Promise([*EXPLAIN, "--batch", "8"], peak_below(EXPLAIN)),
    "-c": Promise([*EXPLAIN, "-c", "77"], gives(lambda all: all["context"] == 77)),
    **on_devices(EXPLAIN),
    "--policy": Promise([*EXPLAIN, "--policy", "cost"], gives(lambda all: all["schedule"]["policy"] == "cost")),
    "--no-fusion": Promise([*EXPLAIN, "--no-fusion"],
                           gives(lambda all: {node["with"] for node in all["schedule"]["nodes"]} == {-1})),
    "--run": Promise(["explain", "MODEL", "--run"], says(r"measured [\d.]+ ms: [\d.]+ times as long")),
    "--nodes": Promise(["explain", "MODEL", "--nodes"], says(r"(?m)^node +op +shape.*why$")),
    "--schedule": Promise(["explain", "MODEL", "--schedule", "-d", "sim"], says(r"(?m)^copy +tensor")),
    "--html": Promise(["explain", "MODEL", "--html", "e.html"], writes("e.html", "heddle explain ")),
    "--trace": Promise(["explain", "MODEL", "--run", "--trace", "e.json"], writes("e.json", "traceEvents")),
    "--dot": Promise(["explain", "MODEL", "--dot", "e.dot"], writes("e.dot", "digraph")),
    "--json": Promise(EXPLAIN, gives(lambda all: all["fits"] is True)),
}

ISA = {"--isa": Promise([*OPS, "--isa", "ABACUS"], says("ABACUS.*EMU128|ABACUS.*AVX"), status=1)}
BENCH = {
    "ceilings": common_bench(["bench", "ceilings", "--quick", "-t", "1"], picture=True),
    "ops": {
        **common_bench(OPS, picture=True), **ISA,
        "--all": Promise(["bench", "ops", "--all", "--quick", "-t", "1"], says("(?s)ABS .*stopped by Ctrl-C|stopped by Ctrl-C"),
                         status=-2, stop_after=4),
        "--type": Promise(["bench", "ops", "MUL_MAT", "--type", "Q5_1", "--quick", "-t", "1", "--json"],
                          gives(lambda all: {row["type"] for row in all["rows"]} == {"q5_1"})),
        "--shapes": Promise([*OPS, "--shapes", "speech"], says("ADD")),
        "-d": Promise([*OPS, "-d", "sim"], says("ADD")),
        "--repacked": Promise(["bench", "ops", "MUL_MAT", "--type", "Q4_0", "--quick", "-t", "1", "--repacked"],
                              says("MUL_MAT")),
        "--median": Promise([*OPS, "--median"], says("ADD")),
    },
    "model": {
        **common_bench(BENCH_MODEL), **ISA,
        "--shape": Promise(["bench", "model", "--shape", "8T"], says("no shape is called '8T'; there are 15M"), status=1),
        "--type": Promise(["bench", "model", "--type", "Q4_O"], says("did you mean 'q4_0'"), status=1),
        "--prompt-tokens": Promise(BENCH_MODEL, says("prefill of 8 tokens;")),
        "--batch": Promise([*BENCH_MODEL, "--batch", "3"], says("prefill of 8 tokens, 3 at a time")),
        "-n": Promise([*BENCH_MODEL, "-n", "4"], says("tales-7m-q8_0.gguf")),
        "-d": Promise([*BENCH_MODEL, "-d", "sim"], says("all layers on SIM0|layers .* SIM0")),
        "--join": Promise([*BENCH_MODEL, "-d", "sim:devices=2", "--join"], says("joined: SIM0, SIM1")),
        "--no-fusion": Promise([*BENCH_MODEL, "--no-fusion"], says("all layers on CPU")),
        "--mapped": Promise([*BENCH_MODEL, "--mapped"], says("all layers on CPU")),
        "--median": Promise([*BENCH_MODEL, "--median"], says("all layers on CPU")),
    },
    "sched": {"--quick": Promise(["bench", "sched", "--quick"], says("growth")), **bench_output(["bench", "sched", "--quick"])},
    "compare": {
        **common_bench(COMPARE),
        "--on": Promise([*COMPARE, "--on", "sim"], says("SIM0|sim")),
        "--against": Promise(COMPARE, says("CPU")),
        "--median": Promise([*COMPARE, "--median"], says("CPU")),
    },
    # Without other machines there is a sentence; tests/mpi has some.
    "cluster": {name: Promise(["bench", "cluster", *words], says("--hosts"), status=1)
                for name, words in {"--quick": ["--quick"], "--model": ["--model", "MODEL"], "--json": ["--json"],
                                    "--csv": ["--csv"]}.items()},
}

ADD = ["verify", "--op", "ADD", "--cases", "1"]
RECORDED = ["verify", "--golden", "GOLDEN", "-t", "1"]
ON_SIM = ["verify", "MODEL", "--on", "sim"]
VERIFY = {
    "--golden": Promise(["verify", "--golden", "GOLDEN", "--op", "ADD"], says(r"\d+ passed, 0 failed")),
    "--cases": Promise(ADD, says("16 passed, 0 failed")),
    "--seed": Promise([*ADD, "--seed", "7"], says("16 passed, 0 failed")),
    "-t": Promise([*ADD, "-t", "1,2"], says("32 passed, 0 failed")),
    "--isa": Promise([*ADD, "--isa", "all"], says(r"\d+ passed, 0 failed")),
    "--op": Promise(ADD, says(r"(?m)^ADD +16")),
    # With fusion graphs are computed both ways.
    "--no-fusion": Promise([*RECORDED, "--no-fusion"], lambda done: passed(done) < passed(done.other(RECORDED))),
    "-d": Promise([*ADD, "-d", "sim"], says("SIM0 +passed|sim +passed")),
    "--timeout": Promise([*ADD, "--timeout", "60"], says("0 failed")),
    "--isolate": Promise([*ADD, "--isolate"], says("0 failed")),
    "--no-isolate": Promise([*ADD, "--no-isolate"], says("0 failed")),
    "-v": Promise(["verify", "-v", "-d", "sim:ops=ADD", "--op", "MUL", "--cases", "1"], says("MUL"), status=1),
    "--json": Promise([*ADD, "--json"], gives(lambda all: all["devices"]["CPU"])),
    "--on": Promise(ON_SIM, says("nodes compared on SIM0 and CPU")),
    "--against": Promise([*ON_SIM, "--against", "CPU"], says("nodes compared on SIM0 and CPU")),
    "-p": Promise([*ON_SIM, "--tokens", "2", "-p", "Once", "-p", "The"], says("4 of 4 tokens")),
    "--tolerance": Promise([*ON_SIM, "--tolerance", "0"], says("all results are equal")),
    "--worst": Promise([*ON_SIM, "--worst", "1"], says("nodes compared")),
    "--drift": Promise([*ON_SIM, "--drift"], says("nodes compared")),
    "--tokens": Promise([*ON_SIM, "--tokens", "3"], says("3 of 3 tokens are alike")),
    "--batch": Promise([*ON_SIM, "--tokens", "3", "--batch", "2"], says("3 of 3 tokens are alike")),
}

PERPLEXITY = ["perplexity", "MODEL", "TEXT", "--json"]
PERPLEXITY_OPTIONS = {
    "-c": Promise([*PERPLEXITY, "-c", "32"], gives(lambda all: all["window_tokens"] == 32)),
    "-d": Promise([*PERPLEXITY, "-d", "sim"], gives(lambda all: all["perplexity"] > 1)),
    "--budget": Promise([*PERPLEXITY, "-d", "sim", "--budget", "SIM0=1K"], says("raise it, lower --context or --batch"), status=1),
    # Addends of two devices are rounded otherwise.
    "--join": Promise([*PERPLEXITY, "-d", "sim:devices=2", "--join"], lambda done: 0 < abs(
        done.json()["perplexity"] / done.other([*PERPLEXITY, "-d", "sim:devices=2"]).json()["perplexity"] - 1) < 0.01),
    "--policy": refused([*PERPLEXITY, "--policy", "luck"], "rules"),
    "-t": refused([*PERPLEXITY, "-t", "0"], "--threads: '0' is not a whole number from 1 to 4096"),
    "--isa": Promise([*PERPLEXITY, "--isa", "ABACUS"], says("ABACUS.*EMU128|ABACUS.*AVX"), status=1),
    "--mapped": Promise([*PERPLEXITY, "--mapped"], gives(lambda all: all["perplexity"] > 1)),
    "--no-fusion": Promise([*PERPLEXITY, "--no-fusion"], gives(lambda all: all["perplexity"] > 1)),
    "--batch": Promise([*PERPLEXITY, "--batch", "50"], lambda done: abs(
        done.json()["perplexity"] / done.other(PERPLEXITY).json()["perplexity"] - 1) < 0.01),
    "--json": Promise(PERPLEXITY, gives(lambda all: all["tokens"] > 100 and all["standard_error"] > 0)),
}

IMATRIX = ["imatrix", "MODEL", "TEXT", "importance.gguf"]
IMATRIX_OPTIONS = {
    "-c": Promise([*IMATRIX, "-c", "32"], says("windows of 32 tokens")),
    "-d": Promise([*IMATRIX, "-d", "sim"], says("importance of 57 weights")),
    "--budget": Promise([*IMATRIX, "-d", "sim", "--budget", "SIM0=1K"], says("raise it, lower --context or --batch"), status=1),
    "--join": Promise([*IMATRIX, "-d", "sim:devices=2", "--join"],
                      writes_unlike("importance.gguf", [*IMATRIX, "-d", "sim:devices=2"])),
    "--policy": refused([*IMATRIX, "--policy", "luck"], "rules"),
    "-t": refused([*IMATRIX, "-t", "0"], "--threads: '0' is not a whole number from 1 to 4096"),
    "--isa": Promise([*IMATRIX, "--isa", "ABACUS"], says("ABACUS.*EMU128|ABACUS.*AVX"), status=1),
    "--mapped": Promise([*IMATRIX, "--mapped"], says("importance of 57 weights")),
    "--no-fusion": Promise([*IMATRIX, "--no-fusion"], says("importance of 57 weights")),
    "--batch": Promise([*IMATRIX, "--batch", "50"], says("importance of 57 weights")),
}

QUANTIZE = ["quantize", "MODEL", "out.gguf"]
OTHERS = {
    "devices": {
        "--json": Promise(["devices", "--json"], gives(lambda all: all["devices"][-1]["name"] == "CPU")),
        "-v": Promise(["devices", "-v"], says("(?s)CPU\n +is .*backend +status")),
    },
    "conform": {
        "--rule": Promise(["conform", "CPU", "--rule", "Event", "-v"], says("events exist where the device says so")),
        "--json": Promise(["conform", "sim", "--json"], gives(lambda all: all["devices"]["SIM0"]["broken"] == 0)),
        "-v": Promise(["conform", "sim", "-v"], says("buffer: clear fills every byte +kept")),
    },
    "inspect": {
        "--json": Promise(["inspect", "MODEL", "--json"], gives(lambda all: len(all["tensors"]) == 74)),
        "-v": Promise(["inspect", "MODEL", "-v"], lambda done: len(done.out) > 2 * len(done.other(["inspect", "MODEL"]).out)),
    },
    "quantize": {
        "--imatrix": Promise([*QUANTIZE, "IQ2_XXS", "--imatrix", "MODEL"], says("has no importance of weights"), status=1),
        "--token-embedding-type": Promise([*QUANTIZE, "Q4_0", "--token-embedding-type", "F16"],
                                          lambda done: done.type_of("token_embd.weight") == "f16"),
        "--output-tensor-type": Promise([*QUANTIZE, "Q4_0", "--output-tensor-type", "Q9"], says("'Q9'|Q9"), status=1),
        "--keep-output": Promise([*QUANTIZE, "Q4_0", "--keep-output"], says("tensors changed")),
        "-t": Promise([*QUANTIZE, "Q4_0", "-t", "1"], says("57 of 74 tensors changed")),
    },
    "launch": {
        "--hosts": refused(["launch", "--", "true"], "--hosts is required"),
        "--check": Promise(["launch", "--hosts", ":", "--check"], says("is no host such as n1 or n1:2"), status=1),
        "--mpirun": Promise(["launch", "--hosts", "n1", "--mpirun", "--", "x"], says("^mpirun .*n1:1.* x : ")),
    },
    "worker": {
        "-d": Promise(["worker", "--describe", "-d", "CPU"], gives(lambda all: "CPU" in all["devices"])),
        "-t": refused(["worker", "-t", "0"], "'0' is not a whole number from 1 to 4096"),
        # What they do is seen over MPI: tests/mpi.
        "--budget": Promise(["worker", "--budget", "CPU=x"], says("'x' is not a number of bytes such as 512M"), status=1),
        "--files": refused(["worker", "--files", "/nowhere"], "Directory does not exist: /nowhere"),
        "--keep-binding": Promise(["worker", "--describe", "--keep-binding"], gives(lambda all: all["cores"])),
        "--describe": Promise(["worker", "--describe"], gives(lambda all: all["host"])),
    },
    "completion": {},
}

PROMISES = {
    (): {
        "--version": Promise(["--version"], says(r"^heddle \d+\.\d+\.\d+ .*interface of ggml")),
        "--plugin": Promise(["devices", "--plugin", "SIM"], says("SIM0")),
        "--hosts": Promise(["--hosts", "no.such.host.invalid", "launch", "--hosts", "n1", "--mpirun", "--", "x"], says("mpirun")),
    },
    ("run",): RUN,
    ("explain",): EXPLAIN_OPTIONS,
    ("perplexity",): PERPLEXITY_OPTIONS,
    ("imatrix",): IMATRIX_OPTIONS,
    ("verify",): VERIFY,
    ("bench",): {},
    **{("bench", name): entries for name, entries in BENCH.items()},
    **{(name,): entries for name, entries in OTHERS.items()},
}
