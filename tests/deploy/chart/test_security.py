"""Who may connect to what the chart installs: listeners with TLS, certificates of cert-manager, the authorizer."""

import functools
from pathlib import Path

import pytest

from libs.roles import ROLES
from libs.rpc.messages.peer_names import names_in
from libs.runtime.config import load
from libs.runtime.service_config import ServiceConfig
from tests.deploy.chart.rendering import FULL_NAME, Object, environment, notes, of_kind, render, value_sets

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


@pytest.mark.parametrize("name", [name for name in value_sets() if name != "tls"])
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


def test_the_notes_say_how_a_client_connects(tmp_path: Path) -> None:
    said = notes(value_sets()["tls"], tmp_path)
    assert "EXTERNAL: bootstrap.servers=kafka.example.net:9092 security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512" in said
    assert f"get secret {EXTERNAL}-tls --output 'jsonpath={{.data.ca\\.crt}}' | base64 --decode" in said
    assert f"SERVICES: bootstrap.servers={SERVICES}.streams.svc.cluster.local:9092 security.protocol=SSL\n" in said
    assert "Clients with a certificate show one that clients-ca vouches for." in said
    assert "ACLs decide what clients may do; User:admin, User:ANONYMOUS may do everything." in said
    assert "ACLs" not in notes(value_sets()["sasl"], tmp_path / "sasl")
