"""`make helm-test`: the chart on a Kubernetes: install, `helm test`, upgrades and lost pods under load, storage 3 → 4 → 3.

With a context of kubectl it works there, in a namespace of its own, which it removes. Without one it starts a Kubernetes on this
machine, as root, with containerd; Go builds that once, in half an hour. Where that cannot be, it says NOT RUN, and ends well.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.chart.images import CLIENT_IMAGE, REPOSITORY, TAGS, save_images
from tests.deploy.chart.kubernetes.binaries import build, why_not
from tests.deploy.chart.kubernetes.cluster import KubernetesCluster
from tests.deploy.chart.load_pod import LoadPod
from tests.deploy.chart.release import Release
from tests.deploy.chart.rendering import FULL_NAME
from tests.deploy.chart.transfers import BEGUN
from tests.support.requirements import is_available

PYTHON_IMAGE = "python:3.11-slim-bookworm"
NODES = 3
KINDS = ("storage", "controller", "group-coordinator", "transaction-coordinator", "quota-manager", "plaintext-gateway", "etcd")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make helm-test", description=__doc__)
    parser.add_argument("--context", default="", help="a context of kubectl")
    parser.add_argument("--images", default="", help="what stands before /storage in the images' names")
    given = parser.parse_args(arguments)
    if given.context and given.images:
        if shutil.which("kubectl") is None:
            sys.exit("helm-test: no kubectl on PATH")
        story = Story(Release(given.context), given.images, PYTHON_IMAGE)
        story.run()
        return
    if given.context or given.images:
        sys.exit("helm-test: CONTEXT and IMAGES go together: make helm-test CONTEXT=name IMAGES=registry.example.net/penstock")
    if reason := why_not() or (None if is_available("docker") else "Docker cannot be started here to build the images"):
        print(f"helm-test: NOT RUN. No Kubernetes can be started here: {reason}.")
        print("Give it one: make helm-test CONTEXT=name IMAGES=registry.example.net/penstock")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing of the cluster may be left
    with local_cluster() as cluster:
        story = Story(Release(cluster.context, cluster.kubeconfig), REPOSITORY, CLIENT_IMAGE, newer=TAGS[1], drains=True)
        story.run()


@contextmanager
def local_cluster() -> Iterator[KubernetesCluster]:
    build(_say)
    with tempfile.TemporaryDirectory(prefix="penstock-k8s-") as scratch:
        archive = Path(scratch) / "images.tar"
        _say("building the images")
        save_images(archive)
        _say("starting Kubernetes")
        with KubernetesCluster(Path(scratch) / "k", nodes=NODES, images=[archive]) as cluster:
            yield cluster


class Story:
    """`newer`: a second tag of all images, to upgrade to. `drains`: whether it may take a node of the cluster away for a time."""

    def __init__(self, release: Release, images: str, client: str, *, newer: str = "", drains: bool = False) -> None:
        self._release, self._images, self._client = release, images, client
        self._newer, self._drains = newer, drains
        self._began = time.monotonic()

    def run(self) -> None:
        try:
            self._release.make_namespace()
            self._installs()
            self._upgrades_under_load()
            self._loses_pods_under_load()
            if self._drains:
                self._loses_a_node_under_load()
            self._scales_under_load()
            self._comes_back()
        finally:
            self._release.remove()
        self._tell("passed")

    def _installs(self) -> None:
        print(self._release.install(f"image.repository={self._images}"))
        self._tell("installed")
        self._smoke(3)

    def _upgrades_under_load(self) -> None:
        """All kinds restart at the same time."""
        with self._load("upgrades"):
            self._release.upgrade("config.log_format=json")
            if self._newer:
                self._release.upgrade(f"image.tag={self._newer}")
                self._release.roll_back()

    def _loses_pods_under_load(self) -> None:
        with self._load("lost-pods"):
            for kind in KINDS:
                ordinal = 0 if kind == "etcd" else 1
                self._release.kubectl("delete", "pod", f"{FULL_NAME}-{kind}-{ordinal}")
                self._release.await_rollouts()

    def _loses_a_node_under_load(self) -> None:
        with self._load("lost-node") as load:
            nodes = self._release.kubectl("get", "node", "--output=name").split()
            node = next(each for each in nodes if each != f"node/{load.node()}")
            self._release.kubectl("drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=10m")
            self._release.kubectl("uncordon", node)
            self._release.await_rollouts()

    def _scales_under_load(self) -> None:
        with self._load("scaling"):
            self._release.upgrade("storage.replicas=4")
            self._smoke(4)
            self._release.upgrade("storage.replicas=3")
            self._smoke(3)

    def _comes_back(self) -> None:
        """After an uninstall the volumes are there, and an install of the same name goes on with them."""
        self._release.uninstall()
        self._release.install(f"image.repository={self._images}")
        assert "upgrades" in self._release.kubectl("exec", f"{FULL_NAME}-storage-1", "--", "find", "/var/lib/penstock")
        self._smoke(3)

    @contextmanager
    def _load(self, name: str) -> Iterator[LoadPod]:
        """Asserts that a client lost nothing and saw no error."""
        load = LoadPod(self._release, self._client, name)
        load.begin(BEGUN)
        yield load
        said = load.end()
        self._tell(f"{name}: {said}")
        assert said["errors"] == []
        assert said["lost"] == 0

    def _smoke(self, brokers: int) -> None:
        said = self._release.test()
        assert said.count("came back") == brokers, said

    def _tell(self, words: str) -> None:
        _say(f"{round(time.monotonic() - self._began)} s: {words}")


def _say(words: str) -> None:
    print(f"helm-test: {words}", flush=True)


if __name__ == "__main__":
    main()
