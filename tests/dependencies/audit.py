"""`make audit`: asks the registry, by pip-audit, for known vulnerabilities of what constraints.txt pins.

CI does not run it: an advisory may be published any day, and a build must not fail for that. pip-audit has an environment of its
own, `.tools/audit`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.dependencies.verdict import verdict
from tests.support.requirements import ROOT

PIP_AUDIT: Final = "pip-audit==2.10.1"
_FOLDER: Final = ROOT / ".tools" / "audit"
_TOOL: Final = _FOLDER / "bin" / "pip-audit"


def main(chosen: list[str]) -> int:
    """`chosen` limits the audit to these packages."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    if unknown := set(chosen) - pins.keys():
        print(f"constraints.txt does not pin {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    asked = {name: version for name, version in pins.items() if not chosen or name in chosen}
    _set_up()
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in asked.items()), encoding="utf-8")
        options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
        run = subprocess.run([_TOOL, *options, "--requirement", listed], capture_output=True, encoding="utf-8")
    try:
        report = json.loads(run.stdout)
    except ValueError:
        print(f"pip-audit ended without a report ({run.returncode}):\n{run.stderr[-4_000:]}", file=sys.stderr)
        return 2
    found = verdict(report, asked, is_whole=not chosen)
    print("\n".join(found.lines))
    return 0 if found.passed else 1


def _set_up() -> None:
    stamp = _FOLDER / "stamp"
    if _TOOL.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == PIP_AUDIT:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", _FOLDER], check=True)
    pip = [str(_FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, PIP_AUDIT], check=True, stdin=subprocess.DEVNULL)
    stamp.write_text(PIP_AUDIT, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
