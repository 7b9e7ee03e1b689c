"""SECURITY=on of `make up`: what it stands for, what is refused beside it, and that nothing that is lost switches it off."""

from pathlib import Path

import pytest

from services.local import __main__ as local
from services.local import protection
from services.local.cluster import Cluster
from services.local.cluster_shape import SECURED, Shape
from services.local.errors import LauncherError
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST, RunDirectory

LISTENER = "PENSTOCK_SASL_LISTENER"
AUTHORIZER, SUPER_USERS, ALLOW = "PENSTOCK_AUTHORIZER", "PENSTOCK_SUPER_USERS", "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND"
ON = Shape(security=SECURED)


def cluster(path: Path, shape: Shape) -> Cluster:
    return Cluster(shape, RunDirectory(path), root=path, python=Path("python"), etcd=Path("etcd"))


def test_tls_and_users_take_the_place_of_the_listener_that_asks_nobody(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.place_of("gateway-2", {LISTEN_HOST: "::", ADVERTISED_HOST: "fd00::5"})
    settings = cluster(tmp_path, Shape(gateways=2, security=SECURED)).listeners()
    assert settings["gateway-1"] == {
        "PENSTOCK_PLAINTEXT_LISTENER": "false",
        LISTENER: "SASL_SSL://127.0.0.1:9092",
        "PENSTOCK_SASL_ADVERTISED_LISTENER": "SASL_SSL://127.0.0.1:9092",
        "PENSTOCK_SSL_KEYSTORE_LOCATION": f"{tmp_path}/security/gateway.pem",
        AUTHORIZER: "StandardAuthorizer",
        ALLOW: "false",
        SUPER_USERS: "User:admin",
    }
    assert settings["gateway-2"][LISTENER] == "SASL_SSL://[::]:9192"
    assert settings["gateway-2"]["PENSTOCK_SASL_ADVERTISED_LISTENER"] == "SASL_SSL://[fd00::5]:9192"


@pytest.mark.parametrize(
    ("given", "all_of_them"),
    [
        ("User:ops", "User:admin;User:ops"),
        ("User:ops; User:CN=a,O=b;", "User:admin;User:ops;User:CN=a,O=b"),
        ("User:ops;User:admin", "User:admin;User:ops"),
        (";", "User:admin"),
    ],
)
def test_super_users_are_more_users_beside_the_first_one(tmp_path: Path, given: str, all_of_them: str) -> None:
    RunDirectory(tmp_path).place_of("gateway-1", {SUPER_USERS: given})
    assert cluster(tmp_path, ON).listeners()["gateway-1"][SUPER_USERS] == all_of_them


def test_super_users_that_a_gateway_has_already_do_not_come_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "pid_of", lambda self, name: 1)
    given = {SUPER_USERS: "User:ops"}
    monkeypatch.setattr("services.local.cluster.processes.environment", lambda pid: {SUPER_USERS: "User:admin;User:ops"})
    running = cluster(tmp_path, ON)
    running.plans = {"gateway-1": running.plans["gateway-1"]}
    assert running.too_late(given) == []
    assert running.too_late({SUPER_USERS: "User:other"}) == [SUPER_USERS]


@pytest.mark.parametrize("name", protection.NOT_BESIDE_SECURITY)
def test_another_key_and_other_first_users_are_refused_beside_it(name: str) -> None:
    with pytest.raises(LauncherError, match=f"SECURITY=on sets {name} itself"):
        protection.refuse_settings({name: "/file"})


@pytest.mark.parametrize("name", protection.SET_BY_SECURITY)
def test_no_setting_beside_it_and_none_from_before_weakens_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(LauncherError, match=f"SECURITY=on sets {name} itself"):
        protection.refuse_settings({name: ""})
    RunDirectory(tmp_path).place_of("gateway-1", {name: ""})
    assert cluster(tmp_path, ON).listeners()["gateway-1"][name]


def test_it_is_remembered_and_what_it_may_be_is_told(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.write_shape(ON)
    assert run.read_shape() == ON
    run.write_shape(Shape())
    assert "security" not in (tmp_path / "cluster.json").read_text(encoding="utf-8"), "the former version reads it"
    assert str(ON).endswith(" SECURITY=on")
    with pytest.raises(LauncherError, match="SECURITY=yes: expected on or off"):
        Shape().with_given(security="yes")


def test_a_cluster_that_is_protected_stays_so_and_one_that_began_without_gets_a_first_user(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create()
    with pytest.raises(LauncherError, match=r"SECURITY=off would let everybody do everything .* until `make wipe`"):
        protection.refuse_change(run, ON, Shape())
    assert not protection.begins_now(run, ON), "its controllers begin it with that user"
    run.data_directory("etcd").mkdir(parents=True)
    protection.refuse_change(run, Shape(), ON)
    assert protection.begins_now(run, ON)
    protection.remember(run, ON, {})
    assert not protection.begins_now(run, ON)


def test_a_cluster_that_settings_protect_keeps_to_them(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create()
    protection.remember(run, Shape(), {"gateway-1": {LISTENER: "SASL_SSL://127.0.0.1:9192"}})
    with pytest.raises(LauncherError, match=rf"has {LISTENER}: end these by empty values at a `make up` first, or keep to"):
        protection.refuse_change(run, Shape(), ON)


def test_admin_ports_demand_the_token_that_there_is(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert protection.admin_token(ON, run) == {}, "a process does not start without the file"
    run.security.mkdir()
    (run.security / "admin-token").touch()
    assert protection.admin_token(ON, run) == {protection.ADMIN_TOKEN: f"{run.security}/admin-token"}
    assert protection.admin_token(Shape(), run) == {}


def test_a_store_that_is_written_anew_after_a_rollback_has_the_first_user(rolled_back: RunDirectory) -> None:
    rolled_back.security.mkdir()
    (rolled_back.security / "first-users").touch()
    assert protection.first_users(rolled_back, Shape()) == rolled_back.security / "first-users"


@pytest.mark.parametrize("left", ["data/protection.json", "security/gateway.pem"])
def test_a_cluster_whose_shape_is_lost_does_not_start_without_protection(tmp_path: Path, left: str) -> None:
    run = RunDirectory(tmp_path)
    run.create()
    protection.remember(run, ON, {})
    run.security.mkdir()
    run.keystore.touch()
    for name in {"data/protection.json", "security/gateway.pem"} - {left}:
        (tmp_path / name).unlink()
    with pytest.raises(LauncherError, match=r"was made with SECURITY=on, and .*cluster\.json.* is lost: give SECURITY=on"):
        protection.refuse_lost_shape(run, None, Shape())
    protection.refuse_lost_shape(run, None, ON)


@pytest.fixture
def rolled_back(tmp_path: Path) -> RunDirectory:
    """A secured cluster that a version without SECURITY has started: somebody removed cluster.json, as that version asks."""
    run = RunDirectory(tmp_path / "run")
    run.create()
    run.data_directory("etcd").mkdir()
    protection.remember(run, ON, {})
    run.write_shape(Shape())
    return run


def test_after_a_rollback_to_a_version_without_it_the_cluster_is_protected_again(rolled_back: RunDirectory) -> None:
    protection.refuse_lost_shape(rolled_back, Shape(), ON)
    protection.refuse_change(rolled_back, Shape(), ON)


@pytest.mark.parametrize("command", ["up", "upgrade"])
def test_after_a_rollback_to_a_version_without_it_the_cluster_does_not_go_on_unprotected(
    rolled_back: RunDirectory, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local.main([command, f"--run={rolled_back.path}"]) == 1
    assert "an older version started it without: `make down" in capsys.readouterr().err


def test_what_runs_without_protection_is_stopped_first(rolled_back: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "running", lambda self: {1: "gateway-1"})
    with pytest.raises(LauncherError, match=r"`make down` first to have .* SECURITY=on"):
        local.refuse_change(Shape(), cluster(rolled_back.path, ON))


def test_a_cluster_whose_listeners_are_lost_does_not_start_without_them(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create()
    given = {LISTENER: "SASL_SSL://127.0.0.1:9192", AUTHORIZER: "StandardAuthorizer"}
    protection.remember(run, Shape(), {"gateway-1": given, "gateway-2": given})
    protection.remember(run, Shape(), {"gateway-1": given})
    with pytest.raises(LauncherError, match=rf"was protected by {AUTHORIZER}, {LISTENER}, and .*places\.json.* is lost"):
        protection.remember(run, Shape(), {"gateway-1": {LISTEN_HOST: "0.0.0.0"}})
    with pytest.raises(LauncherError, match=f"was protected by {LISTENER}, and"):
        protection.remember(run, Shape(), {"gateway-1": {AUTHORIZER: ""}})
    protection.remember(run, Shape(), {"gateway-1": {AUTHORIZER: "", LISTENER: ""}})
    protection.remember(run, Shape(), {"gateway-1": {}})  # somebody has ended both


def test_a_metadata_store_that_is_written_anew_has_the_first_user(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert protection.first_users(run, ON) is None
    run.security.mkdir()
    (run.security / "first-users").touch()
    assert protection.first_users(run, ON) == run.security / "first-users"
    assert protection.first_users(run, Shape()) is None


def test_a_damaged_mark_is_no_reason_to_go_on_without_protection(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.create()
    (run.data / "protection.json").write_text("{", encoding="utf-8")
    with pytest.raises(LauncherError, match=r"protection\.json is damaged .* how the cluster is protected"):
        protection.refuse_lost_shape(run, None, Shape())


def test_the_secrets_go_with_the_cluster_and_nothing_else(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    run.write_shape(ON)
    protection.remember(run, ON, {})
    run.security.mkdir()
    for name in ("ca.key", "ca.pem", "gateway.pem", "first-users", "client.properties", "kcat.conf", "ca.key.tmp", "mine"):
        (run.security / name).touch()
    assert run.remove(tmp_path) == [run.security / "mine"]
    (run.security / "mine").unlink()
    assert run.remove(tmp_path) == []
    assert not run.path.exists()


def test_protection_that_is_asked_of_a_cluster_of_kafka_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local.main(["from-kafka", f"--run={tmp_path / 'run'}", "--security=on", str(tmp_path)]) == 1
    assert "keeps its own users and ACLs" in capsys.readouterr().err


def test_users_of_a_file_have_no_place_beside_the_first_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["up", f"--run={tmp_path / 'run'}", "--security=on", f"--add-scram-file={tmp_path / 'users'}"]
    assert local.main(given) == 1
    assert "leave ADD_SCRAM_FILE= out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
