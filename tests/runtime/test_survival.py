"""Since which of its lives a storage node has lost nothing."""

import errno
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.partition_log.directory import LogDirectory
from libs.runtime.clean_shutdown import forget_survival, survived_from
from tests.commitlog.harness import FaultyFileSystem

FS = OsFileSystem()


class Node:
    """A storage node. Each of its processes opens the log directories, and stops cleanly or not."""

    def __init__(self, root: Path, *names: str) -> None:
        self._root, self.names = root, names
        self.disk = FaultyFileSystem()

    def paths(self) -> list[str]:
        return [str(self._root / name) for name in self.names]

    def life(
        self,
        incarnation: int,
        page_cache: str | dict[str, str],
        *,
        stops_cleanly: bool = False,
        clean: tuple[str, ...] | None = None,
    ) -> int:
        """`page_cache`: of all directories, or of each by name."""
        of = page_cache if isinstance(page_cache, dict) else dict.fromkeys(self.names, page_cache)
        page_caches = {path: of[name] for name, path in zip(self.names, self.paths(), strict=True)}
        recorded = survived_from(
            self.disk, str(self._root), incarnation, page_cache_of=page_caches.__getitem__, directories=self.paths()
        )
        marked = clean if clean is not None else self.names if stops_cleanly else ()
        for name, path in zip(self.names, self.paths(), strict=True):
            if not (Path(path) / ".retired").exists():
                directory = LogDirectory.open(path, FS, new_id=bytes(16), node_id=1)
                if name in marked:
                    directory.mark_clean()
                directory.close()
        return recorded


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "a", "b")


def test_a_first_life_has_lost_nothing_of_its_own(node: Node) -> None:
    assert node.life(10, "boot") == 10


def test_a_killed_process_whose_kernel_lived_on_lost_nothing(node: Node) -> None:
    node.life(10, "boot")
    assert node.life(11, "boot") == 10
    assert node.life(12, "boot") == 10


def test_after_a_power_cut_only_this_life_is_sure(node: Node) -> None:
    node.life(10, "boot")
    assert node.life(11, "another") == 11
    assert node.life(12, "another") == 11


def test_a_volume_that_was_detached_counts_as_lost_though_the_kernel_lived_on(node: Node) -> None:
    node.life(10, {"a": "boot, disk 1", "b": "boot, disk 2"})
    assert node.life(11, {"a": "boot, disk 1", "b": "boot, disk 3"}) == 11
    assert node.life(12, {"a": "boot, disk 1", "b": "boot, disk 3"}) == 11


def test_a_clean_stop_outlives_the_kernel(node: Node) -> None:
    node.life(10, "boot", stops_cleanly=True)
    assert node.life(11, "another") == 10
    assert node.life(12, "third") == 12


def test_one_directory_without_its_mark_is_a_loss(node: Node) -> None:
    node.life(10, "boot", clean=("a",))
    assert node.life(11, "another") == 11


def test_an_unknown_page_cache_is_never_the_same(node: Node) -> None:
    node.life(10, "")
    assert node.life(11, "") == 11
    node.life(12, {"a": "boot", "b": ""})
    assert node.life(13, {"a": "boot", "b": ""}) == 13


def test_a_directory_that_was_away_for_a_life_counts_as_lost(node: Node) -> None:
    node.life(10, "boot")
    node.names = ("a",)
    assert node.life(11, "boot") == 11
    node.names = ("a", "b")
    assert node.life(12, "boot") == 12


def test_a_retired_directory_counts_as_lost_in_the_life_that_finds_it(node: Node) -> None:
    node.life(10, "boot")
    mark = Path(node.paths()[1]) / ".retired"
    mark.write_text("a sync failed", encoding="utf-8")
    assert node.life(11, "boot") == 11
    mark.unlink()
    assert node.life(12, "boot") == 11


def test_a_life_in_which_a_directory_failed_counts_as_lost_whatever_became_of_its_mark(node: Node, tmp_path: Path) -> None:
    node.life(10, "boot", stops_cleanly=True)
    forget_survival(FS, str(tmp_path))
    forget_survival(FS, str(tmp_path))
    assert node.life(11, "boot") == 11
    assert node.life(12, "boot") == 11


@pytest.mark.parametrize("operation", ["create", "pwritev"])
def test_a_full_disk_keeps_a_record_that_holds_on(node: Node, operation: str) -> None:
    node.life(10, "boot")
    node.disk.fail(operation, after=0)
    assert node.life(11, "boot") == 10
    node.disk.heal()
    assert node.life(12, "boot") == 10


@pytest.mark.parametrize("operation", ["create", "pwritev"])
def test_a_full_disk_that_cannot_take_the_record_loses_it(node: Node, operation: str) -> None:
    node.life(10, "boot", stops_cleanly=True)
    node.disk.fail(operation, after=0)
    assert node.life(11, "another") == 10
    node.disk.heal()
    assert node.life(12, "boot") == 12  # the record of life 10, of the same boot, must not count for this one


def test_any_other_failure_to_write_the_record_is_raised(node: Node) -> None:
    node.disk.fail("pwritev", after=0, error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        node.life(10, "boot")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"survived_from": "x", "page_caches": {"a": "boot"}}', '{"survived_from": 99}']
)
def test_a_damaged_record_counts_as_a_loss(node: Node, tmp_path: Path, content: str) -> None:
    node.life(10, "boot", stops_cleanly=True)
    (tmp_path / "survival").write_text(content, encoding="utf-8")
    assert node.life(11, "boot") == 11
