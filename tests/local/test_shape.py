import itertools
import json
from pathlib import Path

import pytest

from services.local.__main__ import parse, shape_of
from services.local.client_listeners import bootstrap_servers, refuse_ports_of_others
from services.local.cluster_plan import plan_cluster
from services.local.cluster_shape import Shape
from services.local.errors import LauncherError
from services.local.run_directory import LONGEST_SOCKET_PATH, RunDirectory


def plans(shape: Shape, run: str = "/run/one") -> list:
    return plan_cluster(shape, RunDirectory(run), python=Path("python"), etcd=Path("etcd"))


def test_the_second_gateway_bootstraps_a_hundred_ports_further_on():
    assert Shape(gateways=2).bootstrap_servers() == "127.0.0.1:9092,127.0.0.1:9192"


def test_a_cluster_never_gives_a_port_twice():
    shape = Shape(9092, storage=20, gateways=9, controllers=5, coordinators=7, transaction_coordinators=7, quota_managers=5)
    ports = [port for plan in plans(shape) for port in plan.ports]
    assert len(ports) == len(set(ports))


def test_a_cluster_stays_inside_its_block_of_ports():
    shape = Shape(9092, storage=20, gateways=3, controllers=5, coordinators=7, transaction_coordinators=7, quota_managers=5)
    assert all(9092 <= port < 9092 + 300 for plan in plans(shape) for port in plan.ports)


def test_ports_of_a_process_do_not_move_when_the_cluster_grows():
    small = {plan.name: plan.ports for plan in plans(Shape(storage=1)) if plan.role != "gateway"}
    large = {plan.name: plan.ports for plan in plans(Shape(storage=5, gateways=2, controllers=3, quota_managers=2))}
    assert small.items() <= large.items()


def test_every_process_bears_a_mark_that_no_other_one_has():
    marks = [plan.mark for run, port in (("/run/one", 9092), ("/run/two", 9292)) for plan in plans(Shape(port=port), run)]
    assert len(marks) == len(set(marks))
    assert all(plan.mark in plan.argv for plan in plans(Shape()))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"storage": 0}, {"storage": 21}, {"gateways": 10}, {"controllers": 6}, {"coordinators": 0}, {"coordinators": 8}),
        *({"quota_managers": 0}, {"quota_managers": 6}),
        *({"port": 80}, {"port": 65500}, {"port": 70000}),
    ],
)
def test_a_shape_out_of_range_is_refused_in_words(wrong):
    with pytest.raises(LauncherError, match="is out of range"):
        Shape(**wrong)


def test_traces_go_to_zipkin_where_it_is_asked_for_and_only_there():
    with_zipkin = {plan.name: plan for plan in plans(Shape(traces="zipkin"))}
    assert with_zipkin["zipkin"].addresses == {"traces": ["127.0.0.1:9138"]}
    assert not with_zipkin["zipkin"].is_part
    gateway = with_zipkin["gateway-1"].environment
    assert gateway["PENSTOCK_TRACE_ENDPOINT"] == "http://127.0.0.1:9138/api/v2/spans"
    assert gateway["PENSTOCK_TRACE_EXPORTER"] == "zipkin"
    assert [plan.name for plan in plans(Shape()) if not plan.is_part] == []
    assert not [name for plan in plans(Shape()) for name in plan.environment if "TRACE" in name]


def test_the_trace_ui_is_remembered_until_another_one_is_given():
    assert Shape(traces="zipkin").with_given(storage="4").traces == "zipkin"
    assert Shape(traces="zipkin").with_given(traces="none") == Shape()
    assert str(Shape(traces="zipkin")).endswith("QUOTA_MANAGERS=1 TRACES=zipkin")
    with pytest.raises(LauncherError, match="TRACES=jaeger is no trace UI: a local cluster has zipkin or none"):
        Shape().with_given(traces="jaeger")


def test_a_shape_is_shown_as_it_is_given_to_make():
    assert (
        str(Shape(port=19092, storage=4))
        == "PORT=19092 STORAGE=4 GATEWAYS=1 CONTROLLERS=1 COORDINATORS=1 TRANSACTION_COORDINATORS=1 QUOTA_MANAGERS=1"
    )


def test_an_option_that_is_not_given_stays_as_it_was():
    assert Shape(storage=5).with_given(port=None, gateways="2") == Shape(storage=5, gateways=2)


def test_an_option_that_is_no_number_is_refused_as_make_names_it():
    with pytest.raises(LauncherError, match=r"^GATEWAYS=two is not a whole number$"):
        Shape().with_given(gateways="two")


def test_a_socket_fits_its_address_however_deep_the_run_directory_is():
    for depth in range(0, 200, 7):
        run = RunDirectory("/" + "d" * depth)
        assert len(str(run.socket("transaction-coordinator-99"))) <= LONGEST_SOCKET_PATH


def test_two_deep_run_directories_do_not_share_their_sockets():
    one, two = (RunDirectory("/" + "d" * 150 + name) for name in "ab")
    assert one.sockets != two.sockets


def test_a_shape_survives_being_written_and_read(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    assert run.read_shape() is None
    for storage, gateways in itertools.product((1, 3), (1, 2)):
        run.write_shape(Shape(storage=storage, gateways=gateways))
        assert run.read_shape() == Shape(storage=storage, gateways=gateways)


def test_a_shape_of_before_there_were_coordinators_has_one(tmp_path):
    (tmp_path / "cluster.json").write_text('{"port": 9192, "storage": 2, "gateways": 1, "controllers": 1}', encoding="utf-8")
    assert RunDirectory(tmp_path).read_shape() == Shape(port=9192, storage=2, coordinators=1)


def test_the_former_version_reads_a_shape_with_one_quota_manager(tmp_path):
    run = RunDirectory(tmp_path)
    known_before = {"port", "storage", "gateways", "controllers", "coordinators", "transaction_coordinators"}
    run.write_shape(Shape(storage=2))
    assert json.loads((tmp_path / "cluster.json").read_text(encoding="utf-8")).keys() == known_before
    run.write_shape(Shape(quota_managers=2))
    assert run.read_shape() == Shape(quota_managers=2)


def test_a_damaged_shape_is_reported_with_what_to_do(tmp_path):
    run = RunDirectory(tmp_path)
    (tmp_path / "cluster.json").write_text('{"colour": 1}', encoding="utf-8")
    with pytest.raises(LauncherError, match="is damaged"):
        run.read_shape()


def test_wiping_leaves_alone_what_the_launcher_did_not_make_and_names_it(tmp_path):
    run = RunDirectory(tmp_path)
    run.create()
    run.write_shape(Shape())
    mine = [tmp_path / "notes.txt", run.data / "thesis", run.data / "storage-1.bak", run.logs / "dev.log", run.pids / "my.pid"]
    ours = [run.data / "storage-1", run.data / "etcd-before-20261125-101500", run.log_file("etcd"), run.pid_file("gateway-2")]
    ours.append(run.logs / "etcd-2026-11-26T10-15-00.123.log")
    for path in [*mine, *ours]:
        path.mkdir()
    assert run.remove(tmp_path) == sorted(mine)
    assert all(path.exists() for path in mine)
    assert not any(path.exists() for path in ours)
    assert not run.holds_cluster()


def test_wiping_removes_the_log_directories_that_storage_nodes_were_given_here(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    given = tmp_path / "run" / "second"
    given.mkdir()
    run.place_of("storage-1", {"PENSTOCK_LOG_DIRS": str(given)})
    assert run.remove(tmp_path) == []
    assert not run.path.exists()


def test_log_directories_outside_of_run_are_known_while_they_exist(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    here, gone, inside = tmp_path / "here", tmp_path / "gone", run.data / "inside"
    for directory in (here, inside, tmp_path / "below-root"):
        directory.mkdir()
    assert run.log_directories_elsewhere(tmp_path) == []
    run.place_of("storage-1", {"PENSTOCK_LOG_DIRS": f"{here}, {gone},{inside},"})
    run.place_of("storage-2", {"PENSTOCK_LOG_DIRS": "below-root"})
    run.place_of("storage-3", {"PENSTOCK_RACK": "a"})
    run.place_of("gateway-1", {"PENSTOCK_LOG_DIRS": str(tmp_path)})
    assert run.log_directories_elsewhere(tmp_path) == [here, tmp_path / "below-root"]


def test_nodes_take_the_place_of_storage_nodes_and_gateways_at_their_brokers_ports():
    shape = Shape(storage=2, roles="node")
    by_name = {plan.name: plan for plan in plans(shape)}
    assert [name for name, plan in by_name.items() if plan.has_gateway] == ["node-1", "node-2"]
    assert not [name for name, plan in by_name.items() if plan.role in ("storage", "gateway")]
    assert shape.bootstrap_servers() == "127.0.0.1:9093,127.0.0.1:9094"
    assert by_name["node-2"].ports == (9094, 9092 + 65 + 2)
    assert by_name["node-2"].environment["PENSTOCK_PORT_BASE"] == "9092"


def test_a_new_cluster_of_nodes_has_one_for_each_core_unless_it_is_told_how_many(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(5)))
    assert shape_of(None, parse(["up", "--roles=node"])).storage == 5
    assert shape_of(None, parse(["up", "--roles=node", "--nodes=2"])).storage == 2
    assert shape_of(None, parse(["up", "--roles=node", "--storage=2"])).storage == 2
    assert shape_of(Shape(storage=3), parse(["up", "--roles=node"])).storage == 3, "it has data on three"


def test_a_node_has_the_data_and_the_sockets_of_the_services_in_it():
    one = next(plan for plan in plans(Shape(roles="node")) if plan.role == "node").environment
    apart = {plan.name: plan.environment for plan in plans(Shape())}
    assert one["PENSTOCK_DATA_DIR"] == apart["storage-1"]["PENSTOCK_DATA_DIR"]
    assert one["PENSTOCK_RPC_UNIX"] == apart["storage-1"]["PENSTOCK_RPC_UNIX"]
    assert one["PENSTOCK_GATEWAY_RPC_UNIX"] == apart["gateway-1"]["PENSTOCK_RPC_UNIX"]


def test_the_roles_are_remembered_and_nodes_have_no_further_gateways():
    assert Shape(roles="node").with_given(storage="4") == Shape(storage=4, roles="node")
    assert Shape(roles="node").with_given(nodes="4") == Shape(storage=4, roles="node")
    assert Shape().with_given(roles="node", nodes="2") == Shape(storage=2, roles="node")
    assert str(Shape(roles="node")).endswith("QUOTA_MANAGERS=1 ROLES=node")
    with pytest.raises(LauncherError, match=r"^ROLES=nodes: expected node or services$"):
        Shape(roles="nodes")
    with pytest.raises(LauncherError, match="has a gateway in each node: give GATEWAYS=1 in place of 2; STORAGE= says how many"):
        Shape(gateways=2, roles="node")


def test_clients_of_nodes_find_each_further_listener_at_the_ports_of_brokers():
    settings = {"PENSTOCK_SASL_LISTENER": "SASL_PLAINTEXT://127.0.0.1:9492"}
    assert bootstrap_servers([settings, settings], of_nodes=True) == {"SASL_PLAINTEXT": "127.0.0.1:9493,127.0.0.1:9494"}
    refuse_ports_of_others(Shape(storage=2, roles="node"), {"node-1": settings, "node-2": settings})
