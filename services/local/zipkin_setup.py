"""Gets Zipkin's server by Maven, once: the trace UI of `make up TRACES=zipkin`."""

import fcntl
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from services.local.errors import LauncherError

VERSION = "3.5.1"
ARTIFACT = f"io.zipkin:zipkin-server:{VERSION}:jar:exec"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
OLDEST_JAVA = 17
HOW = "apt-get install openjdk-17-jre-headless maven"


def zipkin_jar(root: Path) -> Path:
    return root / ".tools" / "zipkin" / f"zipkin-server-{VERSION}-exec.jar"


def set_up_zipkin(root: Path, *, say: Callable[[str], None]) -> None:
    """Raises LauncherError if there is no Java to run it, or no Maven to get it."""
    refuse_old_java()
    jar = zipkin_jar(root)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with open(jar.parent / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _get(jar, say)


def refuse_old_java() -> None:
    if shutil.which("java") is None:
        raise LauncherError(f"TRACES=zipkin needs Java {OLDEST_JAVA}, and no java is on PATH ({HOW})")
    said = subprocess.run(["java", "-version"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    version = re.search(r'version "(\d+)', said.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else said.stderr.strip()[:100]
        raise LauncherError(f"TRACES=zipkin needs Java {OLDEST_JAVA} or later, and java is {found} ({HOW})")


def _get(jar: Path, say: Callable[[str], None]) -> None:
    if shutil.which("mvn") is None:
        raise LauncherError(f"TRACES=zipkin gets {ARTIFACT} by Maven, and no mvn is on PATH ({HOW}); or put it at {jar}")
    say(f"zipkin: getting {ARTIFACT} by Maven, 131 MB")
    beside = jar.parent / "download"
    argv = ["mvn", "-q", "-B", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={beside}"]
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if ended.returncode != 0:
        raise LauncherError(f"Maven could not get {ARTIFACT}:\n{(ended.stdout + ended.stderr)[-2000:]}")
    (beside / jar.name).replace(jar)
    beside.rmdir()
