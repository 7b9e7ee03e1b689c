"""The Dockerfile and the Compose files say what pyproject.toml and the services' settings say."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from libs.cluster.etcd.access import user_of
from libs.runtime.config import load
from libs.runtime.etcd_store import etcd_tls_of
from libs.runtime.lifecycle import CannotRun, Lifecycle
from libs.runtime.peer_tls import peer_tls
from libs.runtime.service_config import ServiceConfig
from libs.runtime.setting_names import NAMES
from libs.telemetry.metrics import Metrics
from services.gateway.config import GatewayConfig
from services.gateway.core.listener_settings import CLIENT_AUTH

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
COMPOSE_FILES = ("compose.yaml", "compose.single.yaml", "compose.nodes.yaml")
SASL, TLS, PEERS = "compose.sasl.yaml", "compose.tls.yaml", "compose.peers.tls.yaml"
ETCD, ADMIN = "compose.etcd.tls.yaml", "compose.admin.yaml"
SETTING = re.compile(r"(?<![${\w])PENSTOCK_([A-Z_]+)(?=[:=])")
GIVEN_TO_COMPOSE = re.compile(r"\$\{(PENSTOCK_[A-Z_]+)")


@pytest.mark.parametrize("file", COMPOSE_FILES)
def test_images_have_the_version_of_the_project(file: str) -> None:
    assert set(re.findall(r"PENSTOCK_TAG:-([^}]*)}", (ROOT / file).read_text(encoding="utf-8"))) == {VERSION}
    assert re.findall(r"ARG VERSION=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8")) == [VERSION]


@pytest.mark.parametrize(
    "file",
    [
        "Dockerfile",
        "compose.yaml",
        "compose.nodes.yaml",
        SASL,
        TLS,
        PEERS,
        ETCD,
        ADMIN,
        *(f"compose.tls/client-auth-{each}.env" for each in CLIENT_AUTH[1:]),
    ],
)
def test_containers_get_settings_that_services_know(file: str) -> None:
    given = {name.lower() for name in SETTING.findall((ROOT / file).read_text(encoding="utf-8"))}
    assert given
    assert given <= set(NAMES)


def gateway_of(*files: str, **variables: str) -> GatewayConfig:
    """Compose lays the variables of each file over those of the ones before it, and over those of `env_file`."""
    merged: dict[str, Any] = {}
    given: dict[str, str] = {}

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], "") or found[2], text)

    for file in files:
        gateway = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]["gateway"]
        merged |= gateway["environment"]
        if "env_file" in gateway:
            lines = (ROOT / filled(gateway["env_file"])).read_text(encoding="utf-8").splitlines()
            given |= dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    given |= {name: filled(str(value)) for name, value in merged.items() if value is not None}
    config = load(GatewayConfig, env={**given, "PENSTOCK_DATA_DIR": "/data", "PENSTOCK_TRACE_SAMPLE_RATIO": "0.01"})
    assert config.problem() is None
    return config


def test_compose_takes_the_settings_of_the_authorizer_for_both_gateways() -> None:
    assert gateway_of("compose.yaml").authorizer == ""
    given = {"PENSTOCK_AUTHORIZER": "StandardAuthorizer", "PENSTOCK_SUPER_USERS": "User:admin;User:ANONYMOUS"}
    config = gateway_of("compose.yaml", SASL, **given, PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND="true")
    assert (config.authorizer, config.super_users) == tuple(given.values())
    assert config.allow_everyone_if_no_acl_found
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("AUTHORIZER", "SUPER_USERS", "ALLOW_EVERYONE_IF_NO_ACL_FOUND"):
        variable = f"PENSTOCK_{name}"
        same = {services[gateway]["environment"][variable] for gateway in ("gateway", "gateway-internal")}
        assert len(same) == 1


def test_clients_of_the_published_ports_authenticate_over_tls_where_compose_is_given_certificates() -> None:
    config = gateway_of("compose.yaml", SASL, TLS)
    assert (config.sasl_address.protocol, config.sasl_advertised_address.port_base) == ("SASL_SSL", 9092)
    assert (config.sasl_ssl_client_auth, config.ssl_truststore_location) == ("none", "")
    assert gateway_of("compose.yaml", SASL, TLS, PENSTOCK_SASL_SSL_CLIENT_AUTH="none") == config
    requested, mutual = [
        gateway_of("compose.yaml", SASL, TLS, PENSTOCK_SASL_SSL_CLIENT_AUTH=each) for each in ("requested", "required")
    ]
    assert (requested.sasl_ssl_client_auth, requested.ssl_truststore_location) == ("requested", mutual.ssl_truststore_location)
    [volume] = yaml.safe_load((ROOT / TLS).read_text(encoding="utf-8"))["services"]["gateway"]["volumes"]
    files = (mutual.ssl_keystore_location, mutual.ssl_key_location, mutual.ssl_truststore_location)
    assert files == tuple(f"{volume['target']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt"))
    assert (volume["read_only"], volume["bind"]) == (True, {"create_host_path": False})


def test_clients_of_the_published_ports_authenticate_where_compose_is_asked_for_it() -> None:
    base, over = [yaml.safe_load((ROOT / file).read_text(encoding="utf-8")) for file in ("compose.yaml", SASL)]
    config = gateway_of("compose.yaml", SASL)
    assert config.listen_host == config.advertised_host == "127.0.0.1"
    assert (config.sasl_address.port_base, config.sasl_advertised_address.port_base) == (9092, 9092)
    own = base["services"]["gateway-internal"]["environment"]["PENSTOCK_LISTENER_NAME"]
    assert config.listener_name != own, "gateways of one name tell clients each other's addresses"
    for controller in ("controller-1", "controller-2"):
        assert over["services"][controller]["environment"]["PENSTOCK_ADD_SCRAM_FILE"] == "/run/secrets/first-users"
        assert over["services"][controller]["secrets"] == ["first-users"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the page makes, with one for each container."""
    directory = tmp_path_factory.mktemp("certificates")
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    [made] = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "peers-ca.pem" in block]
    done = subprocess.run(["bash", "-eu", "-c", made], cwd=directory, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return directory / "peer-certificates"


def services_of(file: str) -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]
    return services


def files_of(service: dict[str, Any], certificates: Path) -> dict[str, str]:
    """The files that its variables name, where the page puts them."""
    places = {}
    for volume in service["volumes"]:
        assert (volume["read_only"], volume["bind"]) == (True, {"create_host_path": False})
        places[volume["target"]] = volume["source"].replace(
            "${PENSTOCK_PEER_CERTIFICATES:-./peer-certificates}", str(certificates)
        )
    found = {}
    for variable, value in service["environment"].items():
        for target, folder in places.items():
            if value.startswith(f"{target}/"):
                found[variable] = value.replace(target, folder)
    return found


def processes() -> dict[str, Any]:
    return {
        name: service
        for name, service in services_of("compose.yaml").items()
        if "PENSTOCK_RPC_TCP" in service.get("environment", {})
    }


def role_of(container: str) -> str:
    return re.sub(r"-(\d+|internal)$", "", container).replace("-", "_")


async def test_each_process_gets_the_certificate_that_the_page_makes_for_it(certificates: Path) -> None:
    """A process whose certificate names another one does not start."""
    base, over = processes(), services_of(PEERS)
    assert over.keys() == base.keys()
    for name, service in over.items():
        settings = {each.removeprefix("PENSTOCK_").lower(): path for each, path in files_of(service, certificates).items()}
        assert len(settings) == len(service["environment"])
        node_id = base[name]["environment"]["PENSTOCK_NODE_ID"]
        config = ServiceConfig(node_id=node_id, etcd=("127.0.0.1:1",), data_dir="unused", **settings)
        assert config.problem() is None
        lifecycle = Lifecycle()
        role = role_of(name)
        assert peer_tls(config, [role], lifecycle, Metrics(role)) is not None
        with pytest.raises(CannotRun, match="another's"):
            peer_tls(config, ["gateway" if role != "gateway" else "storage"], lifecycle, Metrics(role))
        assert await lifecycle.drain()


def test_each_process_is_the_user_of_etcd_of_its_role(certificates: Path) -> None:
    base, over = processes(), services_of(ETCD)
    members = {name for name in services_of("compose.yaml") if name.startswith("etcd-")}
    assert over.keys() == base.keys() | members | {"etcd-users"}
    for name, service in over.items():
        files = files_of(service, certificates)
        if name in members:
            own = x509.load_pem_x509_certificate(Path(files["ETCD_CERT_FILE"]).read_bytes())
            names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert set(names.get_values_for_type(x509.DNSName)) == {name, "localhost"}
            assert {files[f"ETCD_PEER_{each}_FILE"] == files[f"ETCD_{each}_FILE"] for each in ("CERT", "KEY", "TRUSTED_CA")} == {
                True
            }
            assert etcd_user(files["ETCDCTL_CERT"]) == "root"
            assert {service["environment"][f"ETCD_{side}CLIENT_CERT_AUTH"] for side in ("", "PEER_")} == {"true"}
        else:
            expected = "root" if name == "etcd-users" else user_of(role_of(name))
            assert etcd_user(files["PENSTOCK_ETCD_CERT_FILE"]) == expected
            assert etcd_tls_of(files) is not None, "its certificate, its key and its authority can be used"


def etcd_user(certificate: str) -> str:
    """The common name of the certificate in a file."""
    found = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value)


def test_no_plain_address_of_etcd_is_left_where_it_has_tls() -> None:
    base, over = services_of("compose.yaml"), services_of(ETCD)
    for name in ("etcd-1", "etcd-2", "etcd-3"):
        merged = base[name]["environment"] | over[name]["environment"]
        assert [key for key, value in merged.items() if "http://" in str(value)] == ["ETCD_LISTEN_METRICS_URLS"]
        for key in ("ETCD_INITIAL_CLUSTER", "ETCD_ADVERTISE_CLIENT_URLS", "ETCD_INITIAL_ADVERTISE_PEER_URLS"):
            assert merged[key].replace("https://", "http://") == base[name]["environment"][key]
    assert f"--etcd={base['storage-1']['environment']['PENSTOCK_ETCD']}" in over["etcd-users"]["entrypoint"]


def test_each_process_and_prometheus_get_the_token_of_admin_ports() -> None:
    text = yaml.safe_load((ROOT / ADMIN).read_text(encoding="utf-8"))
    assert text["services"].keys() == processes().keys() | {"prometheus"}
    for name in processes():
        assert text["services"][name]["environment"] == {
            "PENSTOCK_ADMIN_TOKEN_FILE": f"/run/secrets/{text['services'][name]['secrets'][0]}"
        }
    assert text["configs"]["admin-token"] == text["secrets"]["admin-token"]
    [user] = re.findall(r"^USER (\d+):", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert text["services"]["prometheus"] == {"group_add": [user]}
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    assert f"sudo chown {user}:{user} admin-token && sudo chmod 440 admin-token\n" in page


def test_what_pages_put_beside_the_compose_files_stays_out_of_version_control() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    files = "".join((ROOT / file).read_text(encoding="utf-8") for file in (SASL, TLS, PEERS, ETCD, ADMIN))
    made = {f"/{name}" for name in re.findall(r"(?:file: |:-)\./([\w-]+)", files)}
    assert len(made) == 4
    assert made | {"/*.key", "/*.pem"} <= set(ignored)


def test_the_page_hands_private_keys_to_the_user_of_the_containers() -> None:
    """openssl makes a key that only its owner reads, and a process whose key cannot be read does not start."""
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    [user] = re.findall(r"^USER (\d+):", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    for over in (TLS, PEERS):
        [folder] = set(re.findall(r":-\./([\w-]+)", (ROOT / over).read_text(encoding="utf-8")))
        made, _, rest = page.partition(f"mkdir {folder}")
        assert made
        before_up, _, _ = rest.partition(f"--file {over} up")
        assert re.search(rf"^sudo chown -R {user}(:0)? {folder}\b", before_up, re.MULTILINE)


def test_the_page_names_each_variable_that_compose_takes() -> None:
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    variables = {
        name
        for file in (*COMPOSE_FILES, SASL, TLS, PEERS, ETCD, ADMIN)
        for name in GIVEN_TO_COMPOSE.findall((ROOT / file).read_text(encoding="utf-8"))
    }
    assert len(variables) > 5
    assert variables <= set(re.findall(r"`(PENSTOCK_\w+)`", page))


def test_images_have_the_command_and_the_package_that_it_runs() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^COPY (\S+) \S+/site-packages/penstock$", text, re.MULTILINE)
    assert (ROOT / folder / "__main__.py").exists()
    assert "-m penstock" in text
