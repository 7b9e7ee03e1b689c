"""`make helm-test` where there is nothing to run it on, and with half of what it needs."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.requirements import ROOT

HELM_TEST = (sys.executable, "-m", "tests.deploy.chart.on_kubernetes")


def run(*arguments: str, path: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        [*HELM_TEST, *arguments], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_without_a_kubernetes_it_says_not_run_and_why(tmp_path: Path) -> None:
    done = run(path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    reason = "it takes root" if os.geteuid() else "no containerd and no containerd-shim-runc-v2 and no ctr"
    assert done.stdout.startswith(f"helm-test: NOT RUN. No Kubernetes can be started here: {reason}")
    assert "make helm-test CONTEXT=name IMAGES=registry.example.net/penstock" in done.stdout


def test_a_context_without_images_is_refused() -> None:
    done = run("--context", "kind", path=os.environ["PATH"])
    assert done.returncode == 1
    assert done.stderr.startswith("helm-test: CONTEXT and IMAGES go together: ")
