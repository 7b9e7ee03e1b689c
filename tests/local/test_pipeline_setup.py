"""What the long set-up of the pipeline says while its tools say nothing."""

import os

from services.local.pipeline_setup import report_growth
from tests.support.polling import eventually


def test_a_long_set_up_tells_how_much_it_has_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/before")
    folder, said = tmp_path / ".tools" / "pipeline", []
    with report_growth(folder, said.append, every_s=0.01):
        (folder / "venv").mkdir()
        (folder / "venv" / "file").write_bytes(bytes(3 << 20))
        temporary = os.environ["TMPDIR"]
        with open(os.path.join(temporary, "download"), "wb") as download:
            download.write(bytes(2 << 20))
        eventually(lambda: any("5 MB in .tools/pipeline" in line for line in said), within_s=30)
    assert os.environ["TMPDIR"] == "/before"
    assert not os.path.exists(temporary)
    assert [line for line in said if not line.startswith("pipeline: ")] == []
