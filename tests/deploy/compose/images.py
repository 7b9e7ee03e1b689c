"""The images of all services, built as a user builds them: `python -m tests.deploy.compose.images`.

They stay in the daemon's folder, so the tests find them. CI builds them ahead: most of it waits for what is downloaded.
"""

import os
import tempfile
from pathlib import Path

from tests.deploy.compose.base_images import build_etcd_image, import_python_image
from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.docker_daemon import DockerDaemon

WITHIN_S = 900.0


def daemon_of_this_process() -> DockerDaemon:
    return DockerDaemon(Path(tempfile.gettempdir()) / f"penstock-docker-{os.getpid()}")


def build_images(docker: DockerDaemon) -> list[str]:
    """Builds what is not there yet. Returns the tags of the services' images."""
    import_python_image(docker)
    project = ComposeProject(docker, "compose.yaml", first_port=9092, brokers=3)
    services = project.configuration()["services"].values()
    build_etcd_image(docker, next(service["image"] for service in services if "/etcd:" in service["image"]))
    project.run("build", within_s=WITHIN_S)
    return sorted({service["image"] for service in services if "build" in service})


if __name__ == "__main__":
    with daemon_of_this_process() as running:
        print("built", *build_images(running))
