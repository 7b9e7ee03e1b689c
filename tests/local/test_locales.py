"""Locales that are not UTF-8: a cluster, the files that it reads, and what its commands say."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from libs.commitlog.__main__ import PROBLEMS
from tests.commitlog.harness import append, batch_at, open_log
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require

NO_GUESSES = {"PYTHONWARNDEFAULTENCODING": "1", "PYTHONWARNINGS": "error::EncodingWarning"}
"""A file that Python opens by the locale's encoding is an error, in the launcher and in each process that it starts."""


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two locales: one lacks letters of our files, the other has them in other bytes."""
    require("locales")
    folder = tmp_path_factory.mktemp("locales")
    for source, charmap in (("ja_JP", "EUC-JP"), ("de_DE", "ISO-8859-1")):
        argv = ["localedef", "--no-archive", "-i", source, "-f", charmap, str(folder / f"{source}.{charmap}")]
        subprocess.run(argv, check=True, capture_output=True)
    return folder


def environment(folder: Path, name: str, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    return {**kept, "LOCPATH": str(folder), "LC_ALL": name, **more}


def run(argv: list[str], environment: Mapping[str, str], *, exit_code: int = 0) -> bytes:
    done = subprocess.run([sys.executable, *argv], cwd=ROOT, env=environment, capture_output=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == exit_code, said.decode(errors="replace")
    return said


def test_python_takes_the_locale_at_its_word(locales: Path) -> None:
    """Without this the tests below would prove nothing: Python takes UTF-8 where it finds no locale."""
    program = "import locale; print(locale.getpreferredencoding())"
    assert run(["-c", program], environment(locales, "ja_JP.EUC-JP")).strip() == b"EUC-JP"
    assert run(["-c", program], environment(locales, "de_DE.ISO-8859-1")).strip() == b"ISO-8859-1"


def test_a_cluster_starts_and_stops_where_nothing_is_utf_8(locales: Path, tmp_path: Path) -> None:
    require("etcd")
    ports = reserve_ports(200)
    given = environment(locales, "ja_JP.EUC-JP", PENSTOCK_STORAGE_PROT="1", **NO_GUESSES)
    try:
        up = run(["-m", "services.local", "up", f"--run={tmp_path / 'run'}", f"--port={ports.first}", "--storage=1"], given)
        assert b"there is no setting PENSTOCK_STORAGE_PROT" in up
        assert f"bootstrap.servers=127.0.0.1:{ports.first}".encode() in up
        assert b"healthy" in run(["-m", "services.local", "status", f"--run={tmp_path / 'run'}"], given)
        saved = tmp_path / "機.backup"
        name = os.fsdecode(str(saved).encode("euc-jp"))
        assert str(saved).encode("euc-jp") in run(["-m", "services.local", "backup", f"--run={tmp_path / 'run'}", name], given)
    finally:
        run(["-m", "services.local", "wipe", f"--run={tmp_path / 'run'}"], given)
        ports.release()


def test_a_report_is_printed_whole_where_the_locale_lacks_its_dashes(locales: Path, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, count=2))
    log.close(clean=True)
    argv = ["-m", "libs.commitlog", "inspect", "--batches", str(tmp_path)]
    said = run(argv, environment(locales, "de_DE.ISO-8859-1"), exit_code=PROBLEMS)  # one: there is no partition.metadata
    assert rb"0\u20131" in said


def test_a_job_file_is_utf_8_wherever_it_is_read(locales: Path, tmp_path: Path) -> None:
    """TOML is UTF-8 by its specification."""
    example = (ROOT / "services" / "pipeline" / "examples" / "packages.toml").read_text(encoding="utf-8")
    file = tmp_path / "jobs.toml"
    file.write_text(f"# 機械の一覧 – «Pakete»\n{example}", encoding="utf-8")
    for name in ("ja_JP.EUC-JP", "de_DE.ISO-8859-1"):
        run(["-m", "services.pipeline", "check", str(file)], environment(locales, name, **NO_GUESSES))
