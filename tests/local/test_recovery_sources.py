"""Which directories `make rebuild` reads."""

from services.local.recovery import storage_nodes
from services.local.run_directory import RunDirectory


def test_every_storage_node_with_data_is_read_from_the_log_directories_that_it_was_given(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    for name in ("etcd", "controller-1", "storage-1", "storage-2"):
        run.data_directory(name).mkdir()
    run.place_of("storage-2", {"PENSTOCK_LOG_DIRS": "/disk-a,/disk-b", "PENSTOCK_RACK": "r"})
    assert storage_nodes(run) == [f"{run.data}/storage-1", f"{run.data}/storage-2=/disk-a,/disk-b"]
