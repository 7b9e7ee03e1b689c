"""`python -m tests.deploy.chart.kubernetes build` builds what is missing; `up` runs a cluster until it is interrupted."""

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.deploy.chart.kubernetes.binaries import build, why_not
from tests.deploy.chart.kubernetes.cluster import KubernetesCluster


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.chart.kubernetes", description=__doc__)
    parser.add_argument("action", choices=("build", "up"))
    parser.add_argument("--nodes", type=int, default=3, help="0: an API server that runs no pods")
    parser.add_argument("--images", type=Path, nargs="*", default=[], help="archives of docker save that every node loads")
    given = parser.parse_args(arguments)
    say = partial(print, flush=True)
    if reason := why_not():
        sys.exit(f"no Kubernetes here: {reason}")
    build(say)
    if given.action == "build":
        return
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with KubernetesCluster(
        Path(tempfile.gettempdir()) / "penstock-kubernetes", nodes=given.nodes, images=given.images
    ) as cluster:
        say(f"export KUBECONFIG={cluster.kubeconfig}")
        stopping.wait()


if __name__ == "__main__":
    main()
