"""All images that the chart and its test need, in one archive: ours as a user builds them, etcd's, and a client's."""

import tempfile
from pathlib import Path

from tests.deploy.chart.rendering import render
from tests.deploy.compose.base_images import PYTHON_IMAGE, build_etcd_image, import_python_image
from tests.deploy.compose.docker_daemon import DockerDaemon

SERVICES = ("storage", "controller", "gateway", "group-coordinator", "transaction-coordinator", "quota-manager")
REPOSITORY = "penstock"
TAGS = ("0.1.0", "0.1.1")
"""The second differs in its label alone: an upgrade to it changes the image of each pod."""
CLIENT_IMAGE = f"{REPOSITORY}/test-client:1"
BUILDS_WITHIN_S = 900.0


def save_images(archive: Path) -> None:
    """Takes a Docker daemon of its own, for as long as this runs."""
    with tempfile.TemporaryDirectory() as scratch, DockerDaemon(Path(scratch) / "docker") as daemon:
        import_python_image(daemon)
        etcd = _etcd_image()
        build_etcd_image(daemon, etcd)
        made = [_build(daemon, service, tag) for tag in TAGS for service in SERVICES]
        _build_client(daemon, Path(scratch) / "client")
        archive.parent.mkdir(parents=True, exist_ok=True)
        daemon.run("save", "--output", str(archive), *made, CLIENT_IMAGE, etcd)


def _build(daemon: DockerDaemon, service: str, tag: str) -> str:
    image = f"{REPOSITORY}/{service}:{tag}"
    arguments = ("--build-arg", f"SERVICE={service}", "--build-arg", f"VERSION={tag}")
    daemon.run("build", "--quiet", *arguments, "--tag", image, ".", within_s=BUILDS_WITHIN_S)
    return image


def _build_client(daemon: DockerDaemon, context: Path) -> None:
    context.mkdir()
    (context / "Dockerfile").write_text(
        f"FROM {PYTHON_IMAGE}\nRUN pip install --quiet --no-cache-dir confluent-kafka\n", encoding="utf-8"
    )
    daemon.run("build", "--quiet", "--tag", CLIENT_IMAGE, str(context), within_s=BUILDS_WITHIN_S)


def _etcd_image() -> str:
    [image] = {
        container["image"]
        for each in render()
        if each["kind"] == "StatefulSet"
        for container in each["spec"]["template"]["spec"]["containers"]
        if container["name"] == "etcd"
    }
    return str(image)
