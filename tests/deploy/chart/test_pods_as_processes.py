"""The chart's pods as processes: each has its command, environment, ports, probes, user and read-only root, and an address of its
own. A client works while all of them are restarted, and while storage goes from three nodes to four and back. Pods speak TLS with
each other and with etcd, which knows them by users, and clients may; their certificates are those that the chart asks
cert-manager for."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart.issued import issued
from tests.deploy.chart.local_kubernetes import LocalKubernetes
from tests.deploy.chart.pods import Pod
from tests.deploy.chart.rendering import FULL_NAME, Object, of_kind, render
from tests.deploy.chart.transfers import BEGUN
from tests.support.certificates import Authority, make_authority
from tests.support.polling import eventually
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(900)

TLS_HOST = f"{FULL_NAME}-tls.streams.svc.cluster.local"
BOOTSTRAP = f"{FULL_NAME}-plaintext.streams.svc.cluster.local:9092"
VALUES = "gateway.stopDelaySeconds=2,storage.scaleDown.jobs=always,storage.maxReplicas=4,controller.replicas=2"
ISSUER = {"issuerRef": {"name": "of-this-test"}}
TLS = {
    "listeners": [
        {"name": "PLAINTEXT", "type": "ClusterIP", "portBase": 9092},
        {"name": "TLS", "type": "ClusterIP", "portBase": 9092, "protocol": "SSL", "replicas": 1, "tls": {"certManager": ISSUER}},
    ],
    "rpcTls": {"enabled": True, "certManager": ISSUER},
    "etcd": {"tls": {"enabled": True, "certManager": ISSUER}},
}
ROLES = ("controller", "group-coordinator", "transaction-coordinator", "quota-manager", "plaintext-gateway", "storage")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    values = tmp_path_factory.mktemp("values") / "tls.yaml"
    values.write_text(yaml.safe_dump(TLS), encoding="utf-8")
    return render(["-f", str(values), "--set", VALUES])


@pytest.fixture(scope="module")
def authority() -> Iterator[Authority]:
    """Where the pods' users can read what trusts it."""
    with tempfile.TemporaryDirectory(prefix="penstock-authority-") as directory:
        Path(directory).chmod(0o755)
        yield make_authority(Path(directory))


@pytest.fixture(scope="module")
def secrets(objects: list[Object], authority: Authority) -> dict[str, dict[str, bytes]]:
    return issued(objects, authority)


@pytest.fixture(scope="module")
def kubernetes(objects: list[Object], secrets: dict[str, dict[str, bytes]]) -> Iterator[LocalKubernetes]:
    """Not below pytest's folders, which it keeps from the pods' users."""
    require("namespaces", "etcd", "helm")
    scratch = tempfile.TemporaryDirectory(prefix="penstock-pods-")
    with scratch as directory, LocalKubernetes(objects, Path(directory), secrets=secrets) as running:
        running.install()
        for job in ("etcd-users", "etcd-permissions"):
            assert "etcd serves users only: penstock-controller" in run_hook(running, objects, "Job", job)
        yield running


def run_hook(kubernetes: LocalKubernetes, objects: list[Object], kind: str, name: str) -> str:
    each = of_kind(objects, kind)[f"{FULL_NAME}-{name}"]
    template = each if kind == "Pod" else each["spec"]["template"]
    return kubernetes.run(name, template["spec"], template["metadata"]["labels"], within_s=120)


def begin_transfers(kubernetes: LocalKubernetes, like: Pod, topic: str, bootstrap: str = BOOTSTRAP, *configs: str) -> Pod:
    """A client in a pod of its own. It has the user and the rights of the pod `like`."""
    command = ["python", "-m", "tests.deploy.chart.transfers", bootstrap, topic, *configs]
    container = {"name": "client", "command": command, "volumeMounts": []}
    spec = {**like.spec, "containers": [container], "initContainers": [], "volumes": []}
    client = kubernetes.start(f"client-{topic}", spec, {"penstock/set": "client"})
    eventually(lambda: BEGUN in client.log())
    return client


def end_transfers(client: Pod) -> None:
    """Prints what the client says. It must have lost nothing, and seen no error."""
    client.stop(60)
    [line] = [line for line in client.log().splitlines() if line.startswith("{")]
    print(line)
    said = json.loads(line)
    assert said["errors"] == []
    assert said["lost"] == 0
    assert said["acknowledged"] == said["sent"] > 100


def test_helm_test_sends_a_record_to_each_broker_and_back(kubernetes: LocalKubernetes, objects: list[Object]) -> None:
    said = run_hook(kubernetes, objects, "Pod", "smoke")
    assert said.count("came back") == 3
    assert f"broker 3 answers at {FULL_NAME}-plaintext.streams.svc.cluster.local:9095" in said


def test_a_client_sees_no_error_while_each_pod_is_restarted(kubernetes: LocalKubernetes) -> None:
    client = begin_transfers(kubernetes, kubernetes.pods[f"{FULL_NAME}-storage-1"], "restarts")
    for role in ROLES:
        kubernetes.restart(f"{FULL_NAME}-{role}")
    end_transfers(client)


def test_a_client_with_tls_gets_its_records_back(kubernetes: LocalKubernetes, authority: Authority) -> None:
    trust = (f"ssl.ca.location={authority.certificate}", "security.protocol=SSL")
    begin_transfers(kubernetes, kubernetes.pods[f"{FULL_NAME}-storage-1"], "tls", f"{TLS_HOST}:9092", *trust).kill()


def test_an_upgrade_that_leaves_too_few_storage_nodes_stops_before_it(kubernetes: LocalKubernetes, objects: list[Object]) -> None:
    template = of_kind(objects, "Job")[f"{FULL_NAME}-decommission"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    command = [*container["command"]]
    command[command.index("--keep") + 1] = "2"
    spec = {**template["spec"], "containers": [{**container, "command": command}]}
    code, said = kubernetes.run_to_the_end("too-few", spec, template["metadata"]["labels"], within_s=60)
    assert code == 1
    assert "Broker 3 cannot be decommissioned: " in said.splitlines()[-1]


def test_storage_grows_by_a_node_and_shrinks_again(kubernetes: LocalKubernetes, objects: list[Object]) -> None:
    storage = f"{FULL_NAME}-storage"
    kubernetes.scale_up(storage, 4)
    client = begin_transfers(kubernetes, kubernetes.pods[f"{storage}-1"], "scaling")
    said = run_hook(kubernetes, objects, "Pod", "smoke")
    assert said.count("came back") == 4
    assert "broker 4: empty" in run_hook(kubernetes, objects, "Job", "decommission")
    kubernetes.scale_down(storage, 4)
    assert "broker 4 is unregistered" in run_hook(kubernetes, objects, "Job", "forget")
    kubernetes.scale_up(storage, 4)
    eventually(lambda: run_hook(kubernetes, objects, "Pod", "smoke").count("came back") == 4)
    end_transfers(client)
