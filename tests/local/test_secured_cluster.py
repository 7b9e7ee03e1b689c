"""A cluster that `make up SECURITY=on` made: kcat uses it as it is told to, others are refused, and it stays so."""

import subprocess
from pathlib import Path
from threading import Timer

from services.local.cluster_shape import Shape
from services.local.run_directory import RunDirectory
from tests.support.requirements import require

WITHIN_S = 30


def kcat(*arguments: str, given: str = "") -> str:
    return subprocess.run(
        ["kcat", *arguments], input=given, capture_output=True, encoding="utf-8", timeout=WITHIN_S, check=True
    ).stdout


def complaint(words: str, *arguments: str) -> bool:
    """Whether kcat says so before it gives up. It is ended as soon as it does."""
    process = subprocess.Popen(["kcat", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    late = Timer(WITHIN_S, process.kill)
    late.start()
    with process:
        assert process.stdout is not None
        heard = any(words in line for line in process.stdout)
        process.kill()
    late.cancel()
    return heard


def test_one_word_protects_a_cluster_and_neither_a_restart_nor_a_lost_file_ends_it(penstock, tmp_path: Path) -> None:
    require("kcat")
    run, bootstrap = tmp_path / "run", f"127.0.0.1:{penstock.port}"
    printed = penstock("up", f"--port={penstock.port}", "--storage=1", "--security=on")
    assert printed[-1] == f"bootstrap.servers={bootstrap}"
    client = ("-F", f"{run}/security/kcat.conf")
    assert f"as in kcat {' '.join(client)} -L" in "\n".join(printed)
    kcat(*client, "-P", "-t", "orders", "-p", "0", given="order 1\n")

    penstock("down")
    (run / "places.json").unlink(missing_ok=True)
    (run / "cluster.json").unlink()
    (refusal,) = penstock("up", f"--port={penstock.port}", "--storage=1", succeeds=False)
    assert "was made with SECURITY=on" in refusal
    RunDirectory(run).write_shape(Shape(penstock.port, storage=1))  # as a version does that knows no SECURITY
    (refusal,) = penstock("up", succeeds=False)
    assert "an older version started it without" in refusal
    penstock("up", "--security=on")
    assert "SECURITY=off would let everybody do everything" in penstock("up", "--security=off", succeeds=False)[0]
    assert penstock("up")[0] == "all of it is running"
    assert penstock("status")[0] == "healthy"

    assert kcat(*client, "-C", "-q", "-t", "orders", "-p", "0", "-e") == "order 1\n"
    assert complaint("Disconnected while requesting ApiVersion", "-L", "-b", bootstrap)
    assert complaint("Authentication failed", *client, "-L", "-X", "sasl.password=wrong")
