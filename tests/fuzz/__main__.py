"""`make fuzz`: every target, or TARGET=; for SECONDS= each, or RUNS= inputs, or the short form of CI without either.

The short form is the same each time: fixed seeds and counts, and a corpus made anew. Otherwise the corpus grows in
`.fuzz/TARGET/corpus` beside a log, and what fails is kept. `python -m tests.fuzz --try FILE TARGET` checks one input.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import RUNS, target

LIVE, LIVE_SECONDS = "gateway", 60
KEPT = Path(".fuzz")
SHORT_SEED = 1
INPUT_SECONDS_MAX = 120
"""libFuzzer ends an input that hangs. This is not a measure: the machine may be busy."""
MEMORY_MIB_MAX = 1024
LENGTH_MAX = 4_096
SHORTER = {"frames": 1_024}
"""Bytes of an input where more of them are more of the same, and cost as much more."""
KEEPS_SEEDS = {"log_directories"}
"""Targets whose seeds all do the same, since all are sound. Otherwise libFuzzer keeps the shortest one only."""
IN_MEMORY = Path("/dev/shm")
"""Where Linux has files in memory. On a disk, `log_directories` takes twice the CPU."""
KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""glibc keeps what is freed. Otherwise the kernel clears MiB for each input of `frames`, which takes half of its CPU."""
DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
COVERED = re.compile(r"cov: (\d+) ft: (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", choices=[[], LIVE, *RUNS], help="all but the live gateway, if none is named")
    parser.add_argument("--seconds", type=int, help="so long each")
    parser.add_argument("--runs", type=int, help="so many inputs each")
    parser.add_argument("--seed", type=int, help="of the mutations")
    parser.add_argument("--try", dest="tried", type=Path, help="check this one input, without atheris")
    chosen = parser.parse_args()
    if chosen.tried:
        target(chosen.target[0]).check(chosen.tried.read_bytes())
        return 0
    if chosen.target == [LIVE]:
        seed = ["--seed", str(chosen.seed)] if chosen.seed is not None else []
        seconds = ["--seconds", str(chosen.seconds or LIVE_SECONDS)]
        return subprocess.run([sys.executable, "-m", "tests.fuzz.live.sequences", *seconds, *seed]).returncode
    failed = []
    for name in chosen.target or RUNS:
        if chosen.seconds is None and chosen.runs is None:
            with tempfile.TemporaryDirectory() as folder:
                passed = fuzz(name, Path(folder), [f"-runs={RUNS[name]}", f"-seed={chosen.seed or SHORT_SEED}"])
        else:
            options = [f"-max_total_time={chosen.seconds}"] if chosen.seconds else []
            options += [f"-runs={chosen.runs}"] if chosen.runs else []
            passed = fuzz(name, KEPT / name, options + ([f"-seed={chosen.seed}"] if chosen.seed else []))
        if not passed:
            failed.append(name)
    return 1 if failed else 0


def fuzz(name: str, folder: Path, options: list[str]) -> bool:
    """Runs one target, and prints a line about it; all that it said if it failed."""
    corpus, log = folder / "corpus", folder / "log"
    corpus.mkdir(parents=True, exist_ok=True)
    KEPT.mkdir(exist_ok=True)
    for number, seed in enumerate(target(name).seeds()):
        (corpus / f"seed-{number:05}").write_bytes(seed)
    cpu_before = cpu_of_children()
    options = [
        *options,
        f"-artifact_prefix={KEPT.absolute()}/{name}-",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-max_len={SHORTER.get(name, LENGTH_MAX)}",
        f"-keep_seed={int(name in KEEPS_SEEDS)}",
    ]
    # libFuzzer ends the process without its clean-up, so somebody else removes what targets leave.
    memory = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch, log.open("wb") as said:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.fuzzed", name, str(corpus), *options],
            env=os.environ | KEEPS_MEMORY | {"TMPDIR": scratch, "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    output = log.read_text(encoding="utf-8", errors="replace")
    done, covered = DONE.search(output), COVERED.findall(output)
    if ended.returncode != 0 or done is None:
        print(f"{name}: FAILED ({ended.returncode})\n{output[-8_000:]}")
        return False
    coverage, features = covered[-1] if covered else ("?", "?")
    cpu = cpu_of_children() - cpu_before
    print(f"{name}: {int(done[1]):,} inputs in {cpu:.0f} s of CPU, {coverage} places and {features} features covered", flush=True)
    return True


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
