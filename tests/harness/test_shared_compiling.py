"""Workers import different files first, and each of them all that the run has."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.shared_compiling import import_in_turn

LAST_LINES = {
    "one/test_a.py": "",
    "one/test_broken.py": "1 / 0",
    "one/test_left_out.py": "",
    "test_skipped.py": "import pytest; pytest.skip('here', allow_module_level=True)",
    "test_z.py": "",
    "helper.py": "",
}


def config_of(root: Path, worker: int | None, argument: str = "shared") -> Any:
    def is_ignored(collection_path: Path, config: Any) -> bool | None:
        return True if collection_path.name == "test_left_out.py" else None

    workers = {} if worker is None else {"workerinput": {"workerid": f"gw{worker}", "workercount": 2}}
    return SimpleNamespace(
        rootpath=root,
        args=[argument],
        invocation_params=SimpleNamespace(dir=root),
        hook=SimpleNamespace(pytest_ignore_collect=is_ignored),
        **workers,
    )


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, last_line in LAST_LINES.items():
        path = tmp_path / "shared" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"with open({str(tmp_path / 'imported')!r}, 'a', encoding='utf-8') as told:\n"
            f"    told.write('{name}\\n')\n{last_line}\n",
            encoding="utf-8",
        )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "shared"]:
        del sys.modules[name]


def imported(root: Path) -> list[str]:
    path = root / "imported"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("worker", "order"),
    [
        (0, ["one/test_a.py", "one/test_broken.py", "test_skipped.py", "test_z.py"]),
        (1, ["test_skipped.py", "test_z.py", "one/test_a.py", "one/test_broken.py"]),
    ],
)
def test_each_worker_begins_with_other_files_and_goes_on_after_one_that_fails(root: Path, worker: int, order: list[str]) -> None:
    import_in_turn(config_of(root, worker))
    assert imported(root) == order


def test_a_file_that_is_given_by_the_name_of_a_test_is_imported_alone(root: Path) -> None:
    import_in_turn(config_of(root, 1, "shared/one/test_a.py::test_this"))
    assert imported(root) == ["one/test_a.py"]


def test_without_workers_and_without_bytecode_nothing_is_imported_ahead(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_in_turn(config_of(root, None))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import_in_turn(config_of(root, 1))
    assert imported(root) == []
