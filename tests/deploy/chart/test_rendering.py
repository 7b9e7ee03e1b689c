"""What the chart renders is valid, for each set of values, and consistent in itself."""

import functools
import tomllib
from collections import Counter
from pathlib import Path

import kubernetes_validate
import pytest

from libs.runtime.config import load
from services.gateway.config import GatewayConfig
from tests.deploy.chart.rendering import (
    CHART,
    FULL_NAME,
    Object,
    containers,
    environment,
    helm,
    notes,
    of_kind,
    pod_specs,
    render,
    value_sets,
)

KUBERNETES = ("1.28.0", "1.33.0", "1.37.0")
"""The oldest that the chart supports, one between, and the newest whose schemas are here."""
OF_OPERATORS = ("monitoring.coreos.com/v1", "cert-manager.io/v1")

everywhere = pytest.mark.parametrize("name", value_sets())


@functools.cache
def rendered(name: str) -> list[Object]:
    return render(value_sets()[name])


@everywhere
def test_the_chart_passes_lint(name: str) -> None:
    done = helm("lint", "--strict", str(CHART), *value_sets()[name])
    assert done.returncode == 0, done.stdout + done.stderr


@everywhere
@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_each_object_is_valid(name: str, kubernetes: str) -> None:
    objects = [each for each in render(value_sets()[name], kubernetes) if each["apiVersion"] not in OF_OPERATORS]
    assert len(objects) > 20
    for each in objects:
        kubernetes_validate.validate(each, kubernetes, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_found() -> None:
    """The validation of the test above can fail."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"portz": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, KUBERNETES[0], strict=True)


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    done = helm("template", "demo", str(CHART), "--kube-version", "1.27.0")
    assert "1.28.0" in done.stderr


@everywhere
def test_no_two_objects_have_one_name(name: str) -> None:
    names = Counter((each["kind"], each["metadata"]["name"]) for each in rendered(name))
    assert [each for each, times in names.items() if times > 1] == []


@everywhere
def test_no_pod_has_rights_that_it_does_not_need(name: str) -> None:
    for where, _, spec in pod_specs(rendered(name)):
        assert spec["automountServiceAccountToken"] is False, where
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        for container in containers(spec):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, where
            assert container["resources"]["requests"], where


@everywhere
def test_each_selector_selects_the_pods_of_one_set(name: str) -> None:
    objects = rendered(name)
    sets = {where: labels for where, labels, _ in pod_specs(objects) if where.startswith("StatefulSet")}
    for each in objects:
        for selector in _selectors(each):
            selected = [where for where, labels in sets.items() if selector.items() <= labels.items()]
            assert len(selected) == 1, f"{each['kind']} {each['metadata']['name']} selects {selected}"


def _selectors(each: Object) -> list[dict[str, str]]:
    spec = each.get("spec", {})
    match each["kind"]:
        case "Service":
            return [spec["selector"]]
        case "StatefulSet" | "PodDisruptionBudget":
            return [spec["selector"]["matchLabels"]]
        case "NetworkPolicy":
            return [spec["podSelector"]["matchLabels"]]
        case _:
            return []


@everywhere
def test_probes_and_volume_mounts_name_what_is_there(name: str) -> None:
    for where, _, spec in pod_specs(rendered(name)):
        claims = next((each["spec"].get("volumeClaimTemplates", []) for each in rendered(name) if _is(each, where)), [])
        volumes = {each["name"] for each in spec.get("volumes", [])} | {each["metadata"]["name"] for each in claims}
        for container in containers(spec):
            ports = {port["name"] for port in container.get("ports", [])}
            probes = [container[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind in container]
            assert {probe["httpGet"]["port"] for probe in probes} <= ports, where
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes, where


def _is(each: Object, where: str) -> bool:
    return f"{each['kind']} {each['metadata']['name']}" == where


@everywhere
def test_gateways_have_ids_of_their_own(name: str) -> None:
    sets = of_kind(rendered(name), "StatefulSet")
    ids = [node_id for key, each in sets.items() if key.endswith("-gateway") for node_id in _ids(each)]
    assert len(ids) == len(set(ids)) >= 1
    assert min(ids) >= 1


@everywhere
def test_storage_nodes_are_brokers_from_one_on(name: str) -> None:
    [storage] = [each for key, each in of_kind(rendered(name), "StatefulSet").items() if key.endswith("-storage")]
    assert _ids(storage)[0] == 1


def _ids(stateful_set: Object) -> list[int]:
    first = stateful_set["spec"]["ordinals"]["start"]
    return list(range(first, first + stateful_set["spec"]["replicas"]))


@everywhere
def test_a_listener_has_a_port_for_each_broker_at_the_advertised_place(name: str) -> None:
    objects = rendered(name)
    services = of_kind(objects, "Service")
    seen = 0
    for where, _, spec in pod_specs(objects):
        if not where.startswith("StatefulSet") or not where.endswith("-gateway"):
            continue
        seen += 1
        service = services[where.removeprefix("StatefulSet ").removesuffix("-gateway")]
        given = environment(spec["containers"][0])
        kind = next((kind for kind in ("SASL", "SSL") if f"PENSTOCK_{kind}_LISTENER" in given), None)
        if kind is not None:
            addresses = (given[f"PENSTOCK_{kind}_ADVERTISED_LISTENER"], given[f"PENSTOCK_{kind}_LISTENER"])
            advertised, base = [int(address.rpartition(":")[2]) for address in addresses]
        else:
            advertised, base = int(given["PENSTOCK_ADVERTISED_PORT_BASE"]), int(given["PENSTOCK_PORT_BASE"])
        is_node_port = service["spec"]["type"] == "NodePort"
        for id, port in enumerate(service["spec"]["ports"]):
            assert port["targetPort"] == base + id
            assert port["nodePort" if is_node_port else "port"] == advertised + id
    assert seen >= 1


@everywhere
def test_each_gateway_takes_the_settings_of_its_listener(name: str, tmp_path: Path) -> None:
    files = of_kind(rendered(name), "ConfigMap")
    for where, _, spec in pod_specs(rendered(name)):
        if where.startswith("StatefulSet") and where.endswith("-gateway"):
            path = tmp_path / where
            path.write_text(files[where.removeprefix("StatefulSet ")]["data"]["settings.toml"], encoding="utf-8")
            own = {"PENSTOCK_NODE_ID": "1", "PENSTOCK_RPC_ADVERTISED_HOST": "10.0.0.1", "PENSTOCK_CONFIG": str(path)}
            config = load(GatewayConfig, env={**environment(spec["containers"][0]), **own})
            assert config.problem() is None, where


def test_only_the_pod_itself_reaches_a_gateway_whose_clients_authenticate_without_it() -> None:
    gateway = of_kind(rendered("sasl"), "StatefulSet")[f"{FULL_NAME}-external-gateway"]
    given = environment(gateway["spec"]["template"]["spec"]["containers"][0])
    assert (given["PENSTOCK_LISTEN_HOST"], given["PENSTOCK_ADVERTISED_HOST"]) == ("127.0.0.1", "127.0.0.1")
    assert given["PENSTOCK_LISTENER_NAME"] == "POD_OF_EXTERNAL", "gateways of one name tell clients each other's addresses"
    assert given["PENSTOCK_SASL_LISTENER"] == "SASL_PLAINTEXT://0.0.0.0:9092"
    assert given["PENSTOCK_SASL_ADVERTISED_LISTENER"] == "SASL_PLAINTEXT://kafka.example.net:9092"
    assert given["PENSTOCK_SASL_ENABLED_MECHANISMS"] == "SCRAM-SHA-512,PLAIN"


def test_controllers_read_the_first_users_from_a_secret_that_may_be_removed() -> None:
    controllers = of_kind(rendered("sasl"), "StatefulSet")[f"{FULL_NAME}-controller"]["spec"]["template"]["spec"]
    [controller] = controllers["containers"]
    path = environment(controller)["PENSTOCK_ADD_SCRAM_FILE"]
    [mount] = [each for each in controller["volumeMounts"] if path.startswith(each["mountPath"] + "/")]
    [volume] = [each for each in controllers["volumes"] if each["name"] == mount["name"]]
    assert volume["secret"] == {"secretName": "kafka-users", "defaultMode": 0o440, "optional": True}
    assert "PENSTOCK_ADD_SCRAM_FILE" not in str(rendered("default"))


def test_jobs_come_over_a_listener_that_asks_for_no_password(tmp_path: Path) -> None:
    [smoke] = [spec for where, _, spec in pod_specs(rendered("sasl")) if where == f"Pod {FULL_NAME}-smoke"]
    assert f"{FULL_NAME}-plaintext.streams.svc.cluster.local:9092" in smoke["containers"][0]["command"]
    said = notes(value_sets()["sasl"], tmp_path)
    assert "EXTERNAL: bootstrap.servers=kafka.example.net:9092 security.protocol=SASL_PLAINTEXT" in said


@pytest.mark.parametrize("state", ["new", "existing"])
def test_a_member_of_etcd_forms_a_cluster_or_joins_one(state: str) -> None:
    etcd = of_kind(render(["--set", f"etcd.initialClusterState={state}"]), "StatefulSet")[f"{FULL_NAME}-etcd"]
    assert f"--initial-cluster-state={state}" in etcd["spec"]["template"]["spec"]["containers"][0]["command"]


def test_an_alarm_of_etcd_restarts_no_member() -> None:
    etcd = of_kind(rendered("default"), "StatefulSet")[f"{FULL_NAME}-etcd"]["spec"]["template"]["spec"]["containers"][0]
    paths = {kind: etcd[kind]["httpGet"]["path"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    local = "/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT"
    assert paths == {"startupProbe": local, "livenessProbe": local, "readinessProbe": "/health"}


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_the_volumes_of_all_kinds_of_pods_stay_or_go_together(policy: str) -> None:
    sets = of_kind(render(["--set", f"storage.persistence.whenDeleted={policy}"]), "StatefulSet")
    with_volumes = {name: each["spec"] for name, each in sets.items() if "volumeClaimTemplates" in each["spec"]}
    policies = {name: spec["persistentVolumeClaimRetentionPolicy"] for name, spec in with_volumes.items()}
    expected = {"whenScaled": "Retain", "whenDeleted": policy}
    assert policies == {f"{FULL_NAME}-{kind}": expected for kind in ("storage", "controller", "etcd")}


def test_a_listener_within_kubernetes_is_advertised_by_its_service() -> None:
    gateway = of_kind(rendered("default"), "StatefulSet")[f"{FULL_NAME}-plaintext-gateway"]
    given = environment(gateway["spec"]["template"]["spec"]["containers"][0])
    assert given["PENSTOCK_ADVERTISED_HOST"] == f"{FULL_NAME}-plaintext.streams.svc.cluster.local"


def test_the_notes_say_where_clients_connect(tmp_path: Path) -> None:
    said = notes(value_sets()["nodeport"], tmp_path)
    assert f"PLAINTEXT: bootstrap.servers={FULL_NAME}-plaintext.streams.svc.cluster.local:9092" in said
    assert "NODES: bootstrap.servers=node.example.net:30092" in said
    assert "helm test demo --namespace streams --logs" in said


def test_a_changed_setting_restarts_the_pods_of_its_service_alone() -> None:
    before = of_kind(rendered("default"), "StatefulSet")
    after = of_kind(render(["--set", "gateway.config.idle_s_max=60"]), "StatefulSet")
    assert {name for name in before if before[name] != after[name]} == {f"{FULL_NAME}-plaintext-gateway"}


def test_one_more_storage_node_restarts_no_pod() -> None:
    before, after = (of_kind(each, "StatefulSet") for each in (rendered("default"), render(["--set", "storage.replicas=4"])))
    assert all(before[name]["spec"]["template"] == after[name]["spec"]["template"] for name in before)


@pytest.mark.parametrize(
    ("repository", "policy"),
    [("penstock", "Never"), ("registry.example.net/penstock", "IfNotPresent"), ("kind:5000/p", "IfNotPresent")],
)
def test_no_image_is_pulled_from_a_registry_that_nobody_named(repository: str, policy: str) -> None:
    specs = pod_specs(render(["--set", f"image.repository={repository}"]))
    pulled = {each["imagePullPolicy"] for _, _, spec in specs for each in containers(spec) if repository in each["image"]}
    assert pulled == {policy}


def test_large_numbers_are_written_as_numbers() -> None:
    objects = render(["--set", "gateway.config.frame_bytes_max=104857600,gateway.config.drain_s_max=1.5"])
    settings = of_kind(objects, "ConfigMap")[f"{FULL_NAME}-plaintext-gateway"]["data"]["settings.toml"]
    assert tomllib.loads(settings) == {"frame_bytes_max": 104_857_600, "drain_s_max": 1.5}


def test_a_common_setting_reaches_the_services_that_know_it() -> None:
    objects = render(["--set", "config.log_level=debug,config.hand_over_s=3"])
    files = {name: tomllib.loads(each["data"]["settings.toml"]) for name, each in of_kind(objects, "ConfigMap").items()}
    assert all(file["log_level"] == "debug" for file in files.values())
    assert "hand_over_s" in files[f"{FULL_NAME}-storage"]
    assert "hand_over_s" not in files[f"{FULL_NAME}-plaintext-gateway"]


def test_traces_of_all_services_go_where_the_values_say() -> None:
    values = "config.trace_endpoint=http://jaeger:4318,config.trace_sample_ratio=0.25,config.trace_slow_ms={50,Fetch=500}"
    configs = of_kind(render(["--set", values]), "ConfigMap")
    files = [tomllib.loads(each["data"]["settings.toml"]) for each in configs.values()]
    expected = {"trace_endpoint": "http://jaeger:4318", "trace_sample_ratio": 0.25, "trace_slow_ms": ["50", "Fetch=500"]}
    assert [{name: file[name] for name in expected} for file in files] == [expected] * len(files)


def test_jobs_empty_nodes_before_they_go() -> None:
    jobs = of_kind(render(["--set", "storage.scaleDown.jobs=always"]), "Job")
    hooks = {job["metadata"]["annotations"]["helm.sh/hook"]: _command(job) for job in jobs.values()}
    bootstrap = f"{FULL_NAME}-plaintext.streams.svc.cluster.local:9092"
    assert hooks["pre-upgrade"][3:] == ["decommission", "--bootstrap", bootstrap, "--keep", "3", "--timeout", "3600"]
    assert hooks["post-upgrade"][3] == "forget"
    assert of_kind(rendered("default"), "Job") == {}


def _command(job: Object) -> list[str]:
    command: list[str] = job["spec"]["template"]["spec"]["containers"][0]["command"]
    return command
