"""The images: how large they are, as whom they run, and what they say about wrong values."""

import json
import re
from pathlib import Path

import pytest

from tests.deploy.compose.docker_daemon import DockerDaemon
from tests.deploy.compose.image_sizes import compressed_sizes
from tests.support.polling import eventually

COMPRESSED_BYTES_MAX = 120_000_000
SERVICES = ("controller", "storage", "gateway", "group-coordinator", "transaction-coordinator", "quota-manager")
SETTINGS = {
    "PENSTOCK_NODE_ID": "1",
    "PENSTOCK_ETCD": "etcd.invalid:2379",
    "PENSTOCK_RPC_TCP": "0.0.0.0:9300",
    "PENSTOCK_RPC_ADVERTISED_HOST": "localhost",
}
NEW_BYTECODE = "touch /tmp/before && {imports} && find / -xdev -name '*.pyc' -newer /tmp/before"


def image_of(images: list[str], service: str) -> str:
    return next(image for image in images if image.partition(":")[0].endswith(f"/{service}"))


def run(docker: DockerDaemon, image: str, settings: dict[str, str]) -> tuple[int, list[str]]:
    """The exit code of a container that ends by itself, and the lines that it wrote."""
    environment = [option for name, value in settings.items() for option in ("--env", f"{name}={value}")]
    ended = docker.attempt("run", "--rm", "--read-only", "--network=none", *environment, image, within_s=60)
    return ended.returncode, (ended.stdout + ended.stderr).splitlines()


def test_there_is_an_image_of_each_service(images: list[str]) -> None:
    assert sorted(image.partition(":")[0].rpartition("/")[2] for image in images) == sorted(SERVICES)


def test_each_image_has_120_mb_compressed_at_most(
    docker: DockerDaemon, images: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = compressed_sizes(docker, images, tmp_path)
    assert sizes.keys() == set(images)
    with capsys.disabled():
        megabytes = {tag: {"image_mb": size.image / 1e6, "base_mb": size.base / 1e6} for tag, size in sizes.items()}
        print("\n" + json.dumps({"compressed": megabytes}))
    assert all(0 < size.base < size.image <= COMPRESSED_BYTES_MAX for size in sizes.values())


def test_services_that_need_the_same_packages_share_their_layer(docker: DockerDaemon, images: list[str]) -> None:
    """Whoever pulls or keeps several images has it once. The gateway needs more, and has a layer of its own in its place."""
    layers = {image: set(json.loads(docker.run("inspect", "--format", "{{json .RootFS.Layers}}", image))) for image in images}
    gateway = layers.pop(image_of(images, "gateway"))
    assert set.intersection(*layers.values()) - gateway


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_without_settings_says_which_and_ends(docker: DockerDaemon, images: list[str], service: str) -> None:
    code, lines = run(docker, image_of(images, service), {})
    role = service.replace("-", "_")
    assert (code, lines) == (1, [f"{role}: PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"PENSTOCK_ETCD": ""}, "PENSTOCK_ETCD is empty; expected host:port of each member of etcd"),
        ({"PENSTOCK_ETCD": "etcd-1"}, "PENSTOCK_ETCD has 'etcd-1'; expected host:port"),
        ({"PENSTOCK_RPC_TCP": "0.0.0.0:99999"}, "PENSTOCK_RPC_TCP has '0.0.0.0:99999'; expected host:port"),
        ({"PENSTOCK_ADMIN_PORT": "admin"}, "PENSTOCK_ADMIN_PORT is 'admin'; expected a whole number"),
        (
            {"PENSTOCK_RPC_ADVERTISED_HOST": ""},
            "PENSTOCK_RPC_TCP is '0.0.0.0:9300', and nobody can connect to that; expected PENSTOCK_RPC_ADVERTISED_HOST",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_ends_the_container_with_one_sentence(
    docker: DockerDaemon, images: list[str], settings: dict[str, str], expected: str
) -> None:
    code, lines = run(docker, image_of(images, "storage"), {**SETTINGS, **settings})
    assert (code, lines) == (1, [f"storage: {expected}"])


def test_a_data_directory_that_cannot_be_written_is_named(docker: DockerDaemon, images: list[str]) -> None:
    code, lines = run(docker, image_of(images, "storage"), {**SETTINGS, "PENSTOCK_DATA_DIR": "/srv/penstock"})
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("storage: /srv/penstock cannot be written: ")


def test_without_etcd_a_container_is_not_ready_and_names_a_variable_that_no_service_knows(
    docker: DockerDaemon, images: list[str]
) -> None:
    environment = [f"--env={name}={value}" for name, value in {**SETTINGS, "PENSTOCK_RACKS": "a"}.items()]
    container = docker.run("run", "--detach", *environment, image_of(images, "controller")).strip()

    def said() -> str:
        ended = docker.attempt("logs", container)
        return ended.stdout + ended.stderr

    eventually(lambda: 'event="there is no such setting" variable=PENSTOCK_RACKS did_you_mean=PENSTOCK_RACK' in said())
    answer = eventually(lambda: (asked := docker.attempt("exec", container, "get", "/readyz")).stdout and asked)
    assert answer.returncode != 0
    assert docker.run("exec", container, "get", "/healthz") == "ok\n"
    docker.run("stop", container)
    assert docker.run("inspect", "--format", "{{.State.ExitCode}}", container) == "0\n", "SIGTERM ends it before it is killed"
    docker.run("rm", "--volumes", container)


@pytest.mark.parametrize("service", SERVICES)
def test_each_image_has_the_command(docker: DockerDaemon, images: list[str], service: str) -> None:
    alone = ("run", "--rm", "--read-only", "--network=none", "--entrypoint=penstock")
    assert docker.run(*alone, image_of(images, service), "--version").startswith("penstock ")
    assert "shows and verifies log directories" in docker.run(*alone, image_of(images, service), "--help")
    assert "bootstrap port" in docker.run(*alone, image_of(images, service), "dev", "--help")


@pytest.mark.parametrize("service", SERVICES)
def test_a_start_compiles_no_bytecode(docker: DockerDaemon, images: list[str], service: str) -> None:
    """With a read-only root it would do so at each start, and keep nothing."""
    imports = f'python -c "import aiohttp.web, services.{service.replace("-", "_")}.__main__"'
    compiled = docker.run(
        *("run", "--rm", "--user=0", "--env=PYTHONDONTWRITEBYTECODE=", "--entrypoint=sh", image_of(images, service)),
        *("-c", NEW_BYTECODE.format(imports=imports)),
    )
    assert compiled == ""


def test_an_image_of_an_unknown_service_is_not_built(docker: DockerDaemon, images: list[str]) -> None:
    refused = docker.attempt("build", "--build-arg", "SERVICE=broker", ".")
    assert refused.returncode != 0
    said = re.search(r"SERVICE is 'broker'; expected one of: (.*)", refused.stderr)
    assert said is not None, refused.stderr[-2000:]
    assert set(said[1].split()) >= set(SERVICES)
    assert "local" not in said[1].split()
