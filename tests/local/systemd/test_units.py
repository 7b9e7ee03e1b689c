"""Units and environment files of a host: what the services and systemd say to them, and what is refused."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from libs.runtime.config import load
from libs.runtime.service_config import ServiceConfig
from libs.runtime.setting_names import unknown
from services.controller.config import ControllerConfig
from services.gateway.config import GatewayConfig
from services.group_coordinator.config import GroupCoordinatorConfig
from services.local.cluster_plan import STOP_ORDER
from services.local.systemd.firewall import FIREWALL_UNIT, Firewall
from services.local.systemd.hosts import RPC_PORTS, Hosts
from services.local.systemd.units import DESCRIPTIONS, STOP_S, unit_name
from services.quota_manager.config import QuotaManagerConfig
from services.storage.config import StorageConfig
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from tests.deploy.hosts.page import block_with, command_with
from tests.deploy.hosts.unit_files import Unit, read_unit
from tests.support.requirements import ROOT, require

CONFIGS: dict[str, type[ServiceConfig]] = {
    "controller": ControllerConfig,
    "storage": StorageConfig,
    "group_coordinator": GroupCoordinatorConfig,
    "transaction_coordinator": TransactionCoordinatorConfig,
    "quota_manager": QuotaManagerConfig,
    "gateway": GatewayConfig,
}
PROGRAM = shutil.which("true") or "/bin/true"
GOOD = {"--hosts": "10.0.0.1,10.0.0.2,node3.example.net", "--host": "10.0.0.2", "--python": PROGRAM, "--etcd": PROGRAM}


def write(into: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    options = {**GOOD, **{f"--{name}": value for name, value in changed.items()}, "--into": str(into)}
    words = [word for option in options.items() for word in option]
    return subprocess.run(
        [sys.executable, "-m", "services.local.systemd", *words], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60
    )


def units(into: Path) -> dict[str, Unit]:
    return {role: read_unit(into / "etc/systemd/system" / unit_name(role), root=into) for role in DESCRIPTIONS}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("host")
    done = write(into, racks="a,b,c")
    assert done.returncode == 0, done.stderr
    return into


@pytest.mark.parametrize("role", CONFIGS)
def test_each_service_accepts_the_settings_of_its_unit(written: Path, role: str) -> None:
    environment = units(written)[role].environment
    config = load(CONFIGS[role], env=environment)
    assert config.problem() is None
    assert list(unknown(environment)) == []
    assert (config.node_id, config.host_id, config.rpc_advertised_host) == (2, "10.0.0.2", "10.0.0.2")
    assert config.etcd == ("10.0.0.1:2379", "10.0.0.2:2379", "node3.example.net:2379")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("secured")
    lay_files(into)
    done = write_secured(into)
    assert done.returncode == 0, done.stderr
    return into


def lay_files(into: Path) -> None:
    """Those that the page has operators copy to a host."""
    certificates = into / "etc/penstock/certificates"
    certificates.mkdir(parents=True)
    for name in ("ca.crt", *(f"{role}.{kind}" for role in DESCRIPTIONS for kind in ("crt", "key")), "../admin-token"):
        (certificates / name).touch()


def write_secured(into: Path) -> subprocess.CompletedProcess[str]:
    words = [word for option in {**GOOD, "--into": str(into)}.items() for word in option]
    argv = [sys.executable, "-m", "services.local.systemd", *words, "--secured"]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)


@pytest.mark.parametrize("role", CONFIGS)
def test_each_service_of_a_secured_host_has_its_certificate_and_the_token(secured: Path, role: str) -> None:
    environment = units(secured)[role].environment
    config = load(CONFIGS[role], env=environment)
    assert config.problem() is None
    assert list(unknown(environment)) == []
    assert config.rpc_tls_certificate == config.etcd_cert_file == f"/etc/penstock/certificates/{role}.crt"
    assert config.rpc_tls_key == config.etcd_key_file == f"/etc/penstock/certificates/{role}.key"
    assert config.rpc_tls_ca == config.etcd_ca_file == "/etc/penstock/certificates/ca.crt"
    assert config.admin_token_file == "/etc/penstock/admin-token"


def test_etcd_of_a_secured_host_serves_nobody_without_a_certificate(secured: Path) -> None:
    environment = units(secured)["etcd"].environment
    assert not [name for name, value in environment.items() if "http://" in value]
    for side in ("", "PEER_"):
        assert environment[f"ETCD_{side}CLIENT_CERT_AUTH"] == "true"
        assert environment[f"ETCD_{side}TRUSTED_CA_FILE"] == "/etc/penstock/certificates/ca.crt"


def test_a_secured_host_whose_files_are_missing_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    lay_files(tmp_path)
    (tmp_path / "etc/penstock/certificates/gateway.key").unlink()
    done = write_secured(tmp_path)
    assert done.returncode == 1
    assert "--secured needs /etc/penstock/certificates/gateway.key, which is not there" in done.stderr
    assert not (tmp_path / "etc/systemd").exists()


def test_no_two_processes_of_a_host_have_a_port_a_socket_or_a_folder_in_common(written: Path) -> None:
    found = units(written)
    for variable in ("PENSTOCK_RPC_TCP", "PENSTOCK_RPC_UNIX", "PENSTOCK_ADMIN_PORT", "PENSTOCK_DATA_DIR"):
        assert len({found[role].environment[variable] for role in RPC_PORTS}) == len(RPC_PORTS), variable


def test_gateways_and_storage_nodes_know_the_rack_of_their_host(written: Path) -> None:
    racks = {role: unit.environment.get("PENSTOCK_RACK") for role, unit in units(written).items()}
    assert {role for role, rack in racks.items() if rack == "b"} == {"gateway", "storage"}


def test_hosts_stop_in_the_order_in_which_make_down_stops(written: Path) -> None:
    found = units(written)
    order = [role for role in STOP_ORDER if role not in ("zipkin", "node")]  # a trace UI is for one machine, units have no nodes
    for place, role in enumerate(order):
        after = found[role].values("Unit", "After")
        stopped_later = [other for other in order[place + 1 :] if unit_name(other) in " ".join(after)]
        needed = [other for other in order if unit_name(other) in " ".join(after)]
        assert stopped_later == needed, f"{role} starts after {needed}"
    last = found["controller"].values("Unit", "After")
    assert unit_name("etcd") in " ".join(last)


def test_systemd_waits_for_a_process_that_drains() -> None:
    from libs.runtime.lifecycle import DRAIN_S

    assert STOP_S > DRAIN_S


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on PATH")
    assert write(tmp_path, user="daemon").returncode == 0
    files = sorted(map(str, (tmp_path / "etc/systemd/system").iterdir()))
    said = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, encoding="utf-8", timeout=60)
    assert (said.returncode, said.stderr) == (0, "")
    for file in files[:-1]:
        if file.endswith(FIREWALL_UNIT):
            continue  # it is no process that stays
        level = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=25", file],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        assert level.returncode == 0, level.stdout[-300:]


def test_the_page_copies_what_a_host_needs_and_no_cluster(tmp_path: Path) -> None:
    """What the checkout has besides, such as `.run` and `.venv`, stays where it is."""
    command = command_with("docs/operate/three-hosts.md", "README.md services /opt/penstock-0.1.0")
    target = tmp_path / "penstock"
    target.mkdir()
    subprocess.run(command.replace("/opt/penstock-0.1.0", str(target)), shell=True, cwd=ROOT, check=True, timeout=60)
    assert {path.name for path in target.iterdir()} == {
        "constraints.txt",
        "docs",
        "libs",
        "pyproject.toml",
        "README.md",
        "services",
    }
    setup = [sys.executable, "-m", "services.local", "setup", "--help"]
    for argv in (setup, [sys.executable, "-m", "services.local.systemd", "--help"]):
        subprocess.run(argv, cwd=target, check=True, capture_output=True, timeout=60)


def test_the_firewall_is_the_one_that_the_page_prints() -> None:
    hosts = Hosts(("10.0.0.1", "10.0.0.2", "10.0.0.3"), "10.0.0.2")
    firewall = Firewall(hosts, ("10.0.0.0/16",), ("10.0.0.9",))
    page = "docs/operate/three-hosts.md"
    assert firewall.rules().strip() == block_with(page, "table inet penstock").strip()


def test_the_rules_of_hosts_with_ipv6_are_ones_that_nftables_takes(tmp_path: Path) -> None:
    require("nft", "root")
    hosts = Hosts(("fd00::1", "fd00::2", "10.0.0.3"), "fd00::1")
    rules = tmp_path / "firewall.nft"
    rules.write_text(Firewall(hosts, ("fd00::/16", "10.0.0.0/8")).rules(), encoding="utf-8")
    done = subprocess.run(["nft", "--check", "-f", str(rules)], capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    text = rules.read_text(encoding="utf-8")
    assert "ip6 saddr @hosts6 tcp dport { 2379, 2380, 7101-7106 } accept" in text
    assert "@operators" not in text


def test_no_process_starts_without_its_firewall(written: Path) -> None:
    text = (written / "etc/systemd/system" / FIREWALL_UNIT).read_text(encoding="utf-8")
    for line in ("Before=", "RequiredBy="):
        (found,) = [each for each in text.splitlines() if each.startswith(line)]
        assert set(found.removeprefix(line).split()) == set(map(unit_name, DESCRIPTIONS))
    assert "After=network-online.target nss-lookup.target" in text  # nftables resolves the name of the third host


@pytest.mark.parametrize(
    ("options", "clients", "peers"),
    [
        ({}, "http://10.0.0.2:2379,http://127.0.0.1:2379", "http://10.0.0.2:2380"),
        ({"hosts": "fd00::1,b,c", "host": "fd00::1"}, "http://[fd00::1]:2379,http://[::1]:2379", "http://[fd00::1]:2380"),
        ({"hosts": "a,b,c", "host": "b"}, "http://0.0.0.0:2379", "http://0.0.0.0:2380"),
        (
            {"hosts": "a,b,c", "host": "b", "address": "10.1.1.1"},
            "http://10.1.1.1:2379,http://127.0.0.1:2379",
            "http://10.1.1.1:2380",
        ),
    ],
)
def test_etcd_listens_where_other_hosts_and_this_one_reach_it_only(
    tmp_path: Path, options: dict[str, str], clients: str, peers: str
) -> None:
    said = write(tmp_path, **options)
    etcd = units(tmp_path)["etcd"].environment
    assert (etcd["ETCD_LISTEN_CLIENT_URLS"], etcd["ETCD_LISTEN_PEER_URLS"]) == (clients, peers)
    assert ("etcd listens at all addresses" in said.stdout) == ("0.0.0.0" in clients)


def test_hosts_may_have_ipv6_addresses(tmp_path: Path) -> None:
    assert write(tmp_path, hosts="fd00::1,fd00::2,fd00::3", host="fd00::2").returncode == 0
    environment = units(tmp_path)["gateway"].environment
    assert environment["PENSTOCK_ETCD"] == "[fd00::1]:2379,[fd00::2]:2379,[fd00::3]:2379"
    assert (environment["PENSTOCK_RPC_TCP"], environment["PENSTOCK_LISTEN_HOST"]) == ("[::]:7105", "::")
    assert load(GatewayConfig, env=environment).problem() is None


def test_a_second_run_replaces_units_and_keeps_changed_settings(tmp_path: Path) -> None:
    write(tmp_path)
    settings = tmp_path / "etc/penstock/storage.env"
    settings.write_text(f"{settings.read_text(encoding='utf-8')}PENSTOCK_LOG_LEVEL=debug\n", encoding="utf-8")
    unit = tmp_path / "etc/systemd/system" / unit_name("storage")
    unit.write_text("", encoding="utf-8")
    said = write(tmp_path).stdout
    assert f"kept {settings}, which differs; remove it to have it written anew" in said
    assert "PENSTOCK_LOG_LEVEL=debug" in settings.read_text(encoding="utf-8")
    assert "ExecStart=" in unit.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"hosts": "a,b,"}, "--hosts has ''; expected names or addresses of hosts, separated by commas"),
        ({"hosts": "a:9092,b,c"}, "--hosts has 'a:9092'; expected names or addresses"),
        ({"hosts": "[fd00::1],b,c"}, "--hosts has '[fd00::1]'; expected names or addresses"),
        ({"hosts": "::1,b,c"}, "--hosts has ::1, which other hosts cannot reach"),
        ({"address": "node"}, "--address is node; expected an IPv4 or IPv6 address of this host"),
        ({"clients": "10.0.0.0/8,lan"}, "--clients has 'lan'; expected addresses or networks, such as 10.0.0.0/16"),
        ({"hosts": "localhost,b,c"}, "--hosts has localhost, which other hosts cannot reach"),
        ({"hosts": "a,127.0.0.1,c"}, "--hosts has 127.0.0.1, which other hosts cannot reach"),
        ({"hosts": "a,b,a"}, "--hosts names a twice"),
        ({"hosts": "a,b"}, "--hosts names 2 hosts; expected 3, 5, 7"),
        ({"host": "10.0.0.9"}, "--host is 10.0.0.9; expected one of --hosts: 10.0.0.1, 10.0.0.2, node3.example.net"),
        ({"racks": "a,b"}, "--racks names 2 racks; expected 3, one for each of --hosts"),
        ({"racks": "a,,c"}, "--racks has an empty name"),
        ({"port": "80"}, "--port is 80; expected 1024 to 65532"),
        ({"port": "7100"}, "--port 7100 takes 7101, which another process of the cluster has"),
        ({"python": "python3"}, "--python is python3; expected an absolute path"),
        ({"python": "/root/penstock/.venv/bin/python"}, "and units do not see /root; expected a path such as /opt/penstock"),
        ({"etcd": "/opt/nothing"}, "--etcd is /opt/nothing, which is no program; `python3 -m services.local setup` installs it"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(tmp_path: Path, changed: dict[str, str], sentence: str) -> None:
    done = write(tmp_path, **changed)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("penstock: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_program_that_units_do_not_see_is_refused(tmp_path: Path) -> None:
    """As a virtual environment in /opt has one to an interpreter below /root."""
    interpreter = tmp_path / "python"
    shutil.copy(PROGRAM, interpreter)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as visible:
        link = Path(visible) / "python"
        link.symlink_to(interpreter)
        done = write(tmp_path / "host", python=str(link))
    assert done.returncode == 1
    assert f"--python is {link}, a link to {interpreter}, and units do not see /tmp" in done.stderr


def test_a_compaction_that_runs_out_of_memory_stops_no_node(written: Path) -> None:
    assert units(written)["storage"].values("Service", "OOMPolicy") == ["continue"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("", encoding="utf-8")
    done = write(tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(rf"penstock: {tmp_path}/etc\S*: Not a directory\n", done.stderr)


def test_ports_for_clients_are_one_and_one_for_each_host() -> None:
    assert Hosts(("a", "b", "c"), "b").client_ports == range(9092, 9096)
