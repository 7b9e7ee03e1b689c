"""The machine, the versions and the settings of a run: what a figure means nothing without."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

from tests.compat.kafka.jars import KafkaJars
from tests.support.requirements import ROOT

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def machine(arguments: Sequence[str]) -> dict[str, object]:
    """`arguments`: the command line's. A value that cannot be had is "unknown"."""
    cores = sorted(os.sched_getaffinity(0))
    return {
        "kind": "machine",
        "command": shlex.join(["python", "-m", "tests.bench", *arguments]),
        "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": _field(Path("/proc/cpuinfo"), r"model name\s*: (.*)"),
        "cores": f"{len(cores)} of {os.cpu_count()}, for servers and load generator alike",
        "virtual": "yes" if re.search(r"^flags\s*:.*\bhypervisor\b", _text(Path("/proc/cpuinfo")), re.MULTILINE) else "no",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB",
        "disk": _file_system(Path(tempfile.gettempdir())),
        "kernel": platform.release(),
        "autogroup_scheduling": {"0": "off", "1": "on"}.get(_text(AUTOGROUP).strip(), "not there"),
        "load_at_start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "penstock": _said("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "python": f"{platform.python_implementation()} {platform.python_version()}, {_build()}",
        "kafka": _kafka_version(),
        "java": _said("java", "-version"),
        "librdkafka": f"{confluent_kafka.libversion()[0]}, confluent-kafka {confluent_kafka.__version__}",
        "compiler": _said("cc", "--version"),
        "load_generator": "in C for lean-* cases, in Python for raw ones; Kafka's and librdkafka's own where a case names them",
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _field(path: Path, pattern: str) -> str:
    found = re.search(pattern, _text(path))
    return found[1] if found else "unknown"


def _file_system(directory: Path) -> str:
    """Of the mount that is nearest above the folder where both systems keep their logs."""
    mounts = [line.split()[:3] for line in _text(Path("/proc/mounts")).splitlines()]
    above = [(point, kind) for _, point, kind in mounts if directory.is_relative_to(point)]
    return f"{max(above, key=lambda mount: len(mount[0]))[1]} below {directory}" if above else "unknown"


def _said(*argv: str) -> str:
    """The first line that a program says of itself."""
    if shutil.which(argv[0]) is None:
        return "unknown"
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60)
    lines = (ended.stdout or ended.stderr).splitlines()
    return lines[0].strip() if lines and not ended.returncode else "unknown"


def _build() -> str:
    """A CPython that was built without optimisations costs an eighth more for each request. Distributions have ways of their own
    to optimise theirs, which do not show."""
    if "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")):
        return "with --enable-optimizations"
    return "the distribution's" if sys.base_prefix == "/usr" else f"without --enable-optimizations, in {sys.base_prefix}"


def _kafka_version() -> str:
    jars = KafkaJars(ROOT).directory.glob("kafka_*.jar")
    versions = {match[1] for jar in jars if (match := re.fullmatch(r"kafka_[\d.]+-([\d.]+)\.jar", jar.name))}
    return " ".join(sorted(versions)) or "not downloaded"
