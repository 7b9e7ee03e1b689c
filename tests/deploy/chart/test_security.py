"""Who may connect to what the chart installs: listeners with TLS, certificates of cert-manager, the authorizer."""

import functools
import re
from pathlib import Path

import pytest

from libs.cluster.etcd.access import user_of
from libs.roles import ROLES
from libs.rpc.messages.peer_names import names_in
from libs.runtime.config import load
from libs.runtime.service_config import ServiceConfig
from services.controller.etcd_users import __main__ as etcd_users
from tests.deploy.chart.rendering import FULL_NAME, Object, environment, notes, of_kind, pod_specs, render, value_sets
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT

EXTERNAL, SERVICES = f"{FULL_NAME}-external", f"{FULL_NAME}-services"


@functools.cache
def rendered(name: str) -> list[Object]:
    return render(value_sets()[name])


def gateway(listener: str) -> Object:
    spec: Object = of_kind(rendered("tls"), "StatefulSet")[f"{listener}-gateway"]["spec"]["template"]["spec"]
    return spec


def secret_of(spec: Object, variable: str) -> tuple[str, str]:
    """The Secret that has the file of a setting, and the file's key there. A mount by subPath would never be renewed."""
    [container] = spec["containers"]
    path = Path(environment(container)[variable])
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == str(path.parent)]
    assert mount.keys() == {"name", "mountPath", "readOnly"}
    [volume] = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    assert volume["secret"].keys() == {"secretName", "defaultMode"}, "a gateway that needs a certificate waits for it"
    return volume["secret"]["secretName"], path.name


def test_a_certificate_comes_from_a_secret_and_is_renewed_in_its_folder() -> None:
    spec = gateway(SERVICES)
    assert secret_of(spec, "PENSTOCK_SSL_KEYSTORE_LOCATION") == ("kafka-tls", "tls.crt")
    assert secret_of(spec, "PENSTOCK_SSL_KEY_LOCATION") == ("kafka-tls", "tls.key")
    assert secret_of(spec, "PENSTOCK_SSL_TRUSTSTORE_LOCATION") == ("clients-ca", "ca.crt")
    given = environment(spec["containers"][0])
    assert given["PENSTOCK_SSL_ADVERTISED_LISTENER"] == f"SSL://{SERVICES}.streams.svc.cluster.local:9092"
    assert (given["PENSTOCK_SSL_CLIENT_AUTH"], given["PENSTOCK_LISTEN_HOST"]) == ("required", "127.0.0.1")
    assert "PENSTOCK_SASL_LISTENER" not in given


def test_cert_manager_is_asked_for_a_certificate_of_the_names_that_clients_use() -> None:
    asked = of_kind(rendered("tls"), "Certificate")[f"{EXTERNAL}-tls"]["spec"]
    assert asked["dnsNames"] == ["kafka.example.net", "*.example.net"]
    assert asked["issuerRef"] == {"name": "letsencrypt", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    assert (asked["duration"], asked["renewBefore"]) == ("2160h", "360h")
    assert secret_of(gateway(EXTERNAL), "PENSTOCK_SSL_KEYSTORE_LOCATION") == (asked["secretName"], "tls.crt")
    assert "PENSTOCK_SSL_TRUSTSTORE_LOCATION" not in environment(gateway(EXTERNAL)["containers"][0])


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("192.0.2.7", {"ipAddresses": ["192.0.2.7"]}),
        ("kafka.example.net", {"dnsNames": ["kafka.example.net"]}),
    ],
)
def test_an_address_is_no_name_in_a_certificate(address: str, names: dict[str, list[str]]) -> None:
    tls = "listeners[1].tls.certManager.issuerRef.name=ca,listeners[1].protocol=SSL"
    where = (
        f"listeners[1].name=TLS,listeners[1].type=LoadBalancer,listeners[1].portBase=9092,listeners[1].advertisedHost={address}"
    )
    plain = "listeners[0].name=PLAINTEXT,listeners[0].type=ClusterIP,listeners[0].portBase=9092"
    [certificate] = of_kind(render(["--set", f"{plain},{where},{tls}"]), "Certificate").values()
    asked = certificate["spec"]
    assert {name: asked[name] for name in ("dnsNames", "ipAddresses") if name in asked} == names


@pytest.mark.parametrize("name", [name for name in value_sets() if name not in ("tls", "closed")])
def test_nothing_of_cert_manager_is_needed_where_nobody_asks_for_it(name: str) -> None:
    assert [each for each in rendered(name) if "cert-manager" in each["apiVersion"]] == []
    assert "PENSTOCK_AUTHORIZER" not in str(rendered(name))


def test_the_certificate_of_each_kind_of_pod_names_all_its_pods_and_no_others() -> None:
    certificates = of_kind(rendered("tls"), "Certificate")
    seen = set()
    for name, each in of_kind(rendered("tls"), "StatefulSet").items():
        if name.endswith("-etcd"):
            continue
        spec = each["spec"]["template"]["spec"]
        assert secret_of(spec, "PENSTOCK_RPC_TLS_KEY") == (f"{name}-rpc-tls", "tls.key")
        assert secret_of(spec, "PENSTOCK_RPC_TLS_CA") == (f"{name}-rpc-tls", "ca.crt")
        asked = certificates[f"{name}-rpc-tls"]["spec"]
        assert (asked["usages"], asked.keys() & {"dnsNames"}) == (["digital signature", "server auth", "client auth"], set())
        named = list(names_in(asked["uris"]))
        [service] = {process.role for process in named}
        assert spec["containers"][0]["command"][-1] == f"services.{service}"
        first = each["spec"]["ordinals"]["start"]
        assert [process.node_id for process in named] == list(range(first, first + 10))
        assert each["spec"]["replicas"] <= 10
        given = {name: value for name, value in environment(spec["containers"][0]).items() if name != "PENSTOCK_CONFIG"}
        config = load(ServiceConfig, env={**given, "PENSTOCK_NODE_ID": "1", "PENSTOCK_RPC_ADVERTISED_HOST": "10.0.0.1"})
        assert config.problem() is None
        seen.add(service)
    assert seen == set(ROLES)


def test_more_pods_than_named_have_another_certificate_and_storage_has_one_for_all_that_may_come() -> None:
    more = "gateway.replicas=11,controller.replicas=1,storage.maxReplicas=30"
    issuer = "rpcTls.enabled=true,rpcTls.certManager.issuerRef.name=ca"
    certificates = of_kind(render(["--set", f"{more},{issuer}"]), "Certificate")
    counts = {name.removeprefix(f"{FULL_NAME}-"): len(each["spec"]["uris"]) for name, each in certificates.items()}
    expected = {"plaintext-gateway-rpc-tls": 20, "controller-rpc-tls": 10, "storage-rpc-tls": 30}
    assert {name: counts[name] for name in expected} == expected


def test_each_kind_of_pod_is_a_user_of_etcd_and_nobody_else_has_the_certificate_of_root() -> None:
    objects = rendered("tls")
    users = {name: each["spec"].get("commonName") for name, each in of_kind(objects, "Certificate").items()}
    for name, each in of_kind(objects, "StatefulSet").items():
        spec = each["spec"]["template"]["spec"]
        if name.endswith("-etcd"):
            assert users[f"{name}-etcd-tls"] is None
            assert not [part for part in spec["containers"][0]["command"] if "http://" in part and "metrics" not in part]
            continue
        role = spec["containers"][0]["command"][-1].removeprefix("services.")
        assert secret_of(spec, "PENSTOCK_ETCD_KEY_FILE") == (f"{name}-etcd-tls", "tls.key")
        assert users[f"{name}-etcd-tls"] == user_of(role)
    root = f"{FULL_NAME}-etcd-root-etcd-tls"
    assert users[root] == "root"
    have_root = {where for where, _, spec in pod_specs(objects) if root in str(spec)}
    jobs = {f"Job {FULL_NAME}-{name}" for name in ("etcd-users", "etcd-permissions")}
    assert have_root == {*jobs, f"StatefulSet {FULL_NAME}-etcd"}, "a member has all data anyway"


def test_permissions_are_added_before_an_upgrade_or_a_rollback_and_taken_away_after_it() -> None:
    jobs = of_kind(rendered("tls"), "Job")
    found = {}
    for name in ("etcd-users", "etcd-permissions"):
        each = jobs[f"{FULL_NAME}-{name}"]
        [container] = each["spec"]["template"]["spec"]["containers"]
        found[each["metadata"]["annotations"]["helm.sh/hook"]] = etcd_users.parse(container["command"][3:]).revoke_unneeded
    assert found == {"post-install,pre-upgrade,pre-rollback": False, "post-upgrade,post-rollback": True}


def test_etcdctl_in_a_members_pod_is_root_at_the_name_that_the_members_certificate_has() -> None:
    objects = rendered("tls")
    spec = of_kind(objects, "StatefulSet")[f"{FULL_NAME}-etcd"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    asked = of_kind(objects, "Certificate")
    names = asked[f"{FULL_NAME}-etcd-etcd-tls"]["spec"]["dnsNames"]
    own = f"{FULL_NAME}-etcd-0"
    assert given["ETCDCTL_ENDPOINTS"].replace("$(POD_NAME)", own) == f"https://{names[0]}:2379"
    assert list(given).index("POD_NAME") < list(given).index("ETCDCTL_ENDPOINTS"), "Kubernetes replaces what comes before"
    volumes = {volume["name"]: volume["secret"] for volume in spec["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in volumes}
    for variable, key in {"CACERT": "ca.crt", "CERT": "tls.crt", "KEY": "tls.key"}.items():
        path = Path(given[f"ETCDCTL_{variable}"])
        secret = mounted[str(path.parent)]
        assert (path.name, asked[secret["secretName"]]["spec"]["commonName"]) == (key, "root")
        assert secret["optional"], "a member starts without it"
    without = render([])
    [plain] = of_kind(without, "StatefulSet")[f"{FULL_NAME}-etcd"]["spec"]["template"]["spec"]["containers"]
    assert "ETCDCTL" not in str(plain)


def test_the_page_of_a_lost_authority_names_each_secret_that_it_signed() -> None:
    page = (ROOT / "docs" / "operate" / "kubernetes.md").read_text(encoding="utf-8")
    block = next(block.text for block in blocks_of(section_of(page, "A lost authority of etcd")) if "delete secret" in block.text)
    printed = set(re.findall(r"[\w-]+-etcd-tls", block))
    made = of_kind(render(["--set", "etcd.tls.enabled=true,etcd.tls.certManager.issuerRef.name=ca"]), "Certificate")
    assert printed == {name.replace(FULL_NAME, "demo-penstock", 1) for name in made}


def test_an_etcd_of_the_users_own_has_its_secrets_and_no_job() -> None:
    objects = render(
        ["--set", "etcd.enabled=false,etcd.external.endpoints={e:2379},etcd.tls.enabled=true,metadataBackup.enabled=true"]
    )
    assert f"{FULL_NAME}-etcd-users" not in of_kind(objects, "Job")
    found = {where: spec for where, _, spec in pod_specs(objects) if "PENSTOCK_ETCD" in str(spec)}
    assert all("/etc/penstock-etcd-tls/tls.key" in str(spec) for spec in found.values())
    assert f"CronJob {FULL_NAME}-metadata-backup" in found


def test_secrets_for_pods_may_be_given() -> None:
    objects = render(["--set", "rpcTls.enabled=true"])
    assert of_kind(objects, "Certificate") == {}
    spec = of_kind(objects, "StatefulSet")[f"{FULL_NAME}-storage"]["spec"]["template"]["spec"]
    assert secret_of(spec, "PENSTOCK_RPC_TLS_CERTIFICATE") == (f"{FULL_NAME}-storage-rpc-tls", "tls.crt")


def test_all_gateways_have_the_same_authorizer() -> None:
    sets = of_kind(rendered("tls"), "StatefulSet")
    names = ("PENSTOCK_AUTHORIZER", "PENSTOCK_SUPER_USERS", "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND")
    found = [environment(each["spec"]["template"]["spec"]["containers"][0]) for name, each in sets.items() if "gateway" in name]
    expected = ["StandardAuthorizer", "User:admin;User:ANONYMOUS", "false"]
    assert [[given[name] for name in names] for given in found] == [expected] * 3


def test_jobs_log_in_by_the_listener_and_the_secret_that_are_named(tmp_path: Path) -> None:
    closed = rendered("closed")
    clients = f"{FULL_NAME}-clients"
    [smoke] = [spec for where, _, spec in pod_specs(closed) if where == f"Pod {FULL_NAME}-smoke"]
    [container] = smoke["containers"]
    arguments = container["command"][container["command"].index("smoke") :]
    login = ["--command-config", "/etc/penstock-client/client.properties"]
    assert arguments[1:] == ["--bootstrap", f"{clients}.streams.svc.cluster.local:9092", "--timeout", "120", *login]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {mounts[volume["name"]]: volume["secret"] for volume in smoke["volumes"]}
    assert secrets["/etc/penstock-client"] == {"secretName": "operator", "defaultMode": 0o440}
    only_ca = [{"key": "ca.crt", "path": "ca.crt"}]
    assert secrets["/etc/penstock-listener"].items() >= {"secretName": f"{clients}-tls", "optional": True}.items()
    assert secrets["/etc/penstock-listener"]["items"] == only_ca, "its key is for gateways alone"
    said = notes(value_sets()["closed"], tmp_path)
    assert "the jobs that empty storage nodes come as the user of operator" in said
    assert "User:ANONYMOUS" not in said


def test_jobs_that_empty_storage_nodes_log_in_too() -> None:
    always = render([*value_sets()["closed"], "--set", "storage.scaleDown.jobs=always"])
    for name in ("decommission", "forget"):
        command = of_kind(always, "Job")[f"{FULL_NAME}-{name}"]["spec"]["template"]["spec"]["containers"][0]["command"]
        assert command[-2:] == ["--command-config", "/etc/penstock-client/client.properties"]
        assert f"{FULL_NAME}-clients.streams.svc.cluster.local:9092" in command


def test_all_admin_ports_demand_the_token_that_prometheus_sends() -> None:
    closed = rendered("closed")
    for name, each in of_kind(closed, "StatefulSet").items():
        if not name.endswith("-etcd"):
            assert secret_of(each["spec"]["template"]["spec"], "PENSTOCK_ADMIN_TOKEN_FILE") == ("admin-token", "token")
    [monitor] = of_kind(closed, "PodMonitor").values()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "admin-token", "key": "token"}}
    assert "PENSTOCK_ADMIN_TOKEN_FILE" not in str(rendered("default"))


def test_jobs_without_a_login_mount_nothing() -> None:
    [smoke] = [spec for where, _, spec in pod_specs(rendered("default")) if where == f"Pod {FULL_NAME}-smoke"]
    assert "--command-config" not in smoke["containers"][0]["command"]
    assert "volumes" not in smoke


def test_the_notes_say_how_a_client_connects(tmp_path: Path) -> None:
    said = notes(value_sets()["tls"], tmp_path)
    assert "EXTERNAL: bootstrap.servers=kafka.example.net:9092 security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512" in said
    assert f"get secret {EXTERNAL}-tls --output 'jsonpath={{.data.ca\\.crt}}' | base64 --decode" in said
    assert f"SERVICES: bootstrap.servers={SERVICES}.streams.svc.cluster.local:9092 security.protocol=SSL\n" in said
    assert "Clients with a certificate show one that clients-ca vouches for." in said
    assert "ACLs decide what clients may do; User:admin, User:ANONYMOUS may do everything." in said
    assert "ACLs" not in notes(value_sets()["sasl"], tmp_path / "sasl")
