"""Settings from a file and the environment, with errors that name the culprit."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.runtime.config import ConfigError, load


@dataclass(frozen=True)
class Config:
    node_id: int
    data_dir: str
    etcd: tuple[str, ...] = ("127.0.0.1:2379",)
    ratio: float = 0.5
    verbose: bool = False
    rpc_tcp: str | None = None
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.node_id < 0:
            raise ValueError("PENSTOCK_NODE_ID must not be negative")


NEEDED = {"PENSTOCK_NODE_ID": "3", "PENSTOCK_DATA_DIR": "/data"}


def test_the_environment_alone_is_enough() -> None:
    env = NEEDED | {
        "PENSTOCK_ETCD": "a:1, b:2,",
        "PENSTOCK_RATIO": "1e-3",
        "PENSTOCK_VERBOSE": "Yes",
        "PENSTOCK_RPC_TCP": "0.0.0.0:9",
        "PENSTOCK_PORTS": "1,2",
        "PENSTOCK_SOMETHING_ELSE": "is not ours to judge",
    }
    assert load(Config, env=env) == Config(3, "/data", ("a:1", "b:2"), 0.001, True, "0.0.0.0:9", (1, 2))


def test_a_setting_that_is_not_set_has_its_default() -> None:
    assert load(Config, env=NEEDED) == Config(3, "/data")
    assert load(Config, env=NEEDED | {"PENSTOCK_RPC_TCP": ""}).rpc_tcp is None


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        'node_id = 1\ndata_dir = "/file"\nratio = 2\netcd = ["x:1"]\nports = [5]\nrpc_tcp = "h:1"\nverbose = true\n',
        encoding="utf-8",
    )
    env = {"PENSTOCK_CONFIG": str(path), "PENSTOCK_NODE_ID": "9"}
    assert load(Config, env=env) == Config(9, "/file", ("x:1",), 2.0, True, "h:1", (5,))


@pytest.mark.parametrize("around", [" {} ", "\t{}\n", "\x1f{}"])
def test_spaces_around_a_value_do_not_count(around: str, tmp_path: Path) -> None:
    """As in Kafka's ConfigDef, which has Java trim each text."""
    given = {"RATIO": "1e-3", "VERBOSE": "true", "RPC_TCP": "h:9", "PORTS": "1,2", "ETCD": "a:1"}
    env = NEEDED | {f"PENSTOCK_{name}": around.format(value) for name, value in given.items()}
    assert load(Config, env=env) == Config(3, "/data", ("a:1",), 0.001, True, "h:9", (1, 2))
    assert load(Config, env=NEEDED | {"PENSTOCK_RPC_TCP": around.format("")}).rpc_tcp is None
    path = tmp_path / "config.toml"
    path.write_text('node_id = 3\ndata_dir = " /data "\n', encoding="utf-8")
    assert load(Config, env={"PENSTOCK_CONFIG": str(path)}).data_dir == "/data"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"PENSTOCK_NODE_ID": "three"}, "PENSTOCK_NODE_ID is 'three'; expected a whole number"),
        ({"PENSTOCK_RATIO": "much"}, "PENSTOCK_RATIO is 'much'; expected a number"),
        ({"PENSTOCK_VERBOSE": "perhaps"}, "PENSTOCK_VERBOSE is 'perhaps'; expected true or false"),
        ({"PENSTOCK_PORTS": "1,x"}, "PENSTOCK_PORTS is 'x'; expected a whole number"),
        ({"PENSTOCK_NODE_ID": "-1"}, "PENSTOCK_NODE_ID must not be negative"),
        ({"PENSTOCK_CONFIG": "/nowhere/at/all"}, "cannot read /nowhere/at/all: No such file or directory"),
    ],
)
def test_a_wrong_variable_is_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(Config, env=NEEDED | change)
    assert str(raised.value) == message


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="PENSTOCK_DATA_DIR is not set"):
        load(Config, env={"PENSTOCK_NODE_ID": "1"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node_idd = 1", "unknown key 'node_idd'"),
        ('node_id = "1"', "node_id is '1'; expected a whole number"),
        ("node_id = 1\nverbose = 1", "verbose is 1; expected true or false"),
        ('node_id = 1\netcd = "a:1"', "etcd is 'a:1'; expected a list"),
        ("node_id = = 1", "is not TOML"),
    ],
)
def test_a_wrong_key_of_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load(Config, env={"PENSTOCK_CONFIG": str(path), "PENSTOCK_DATA_DIR": "/d"})
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
