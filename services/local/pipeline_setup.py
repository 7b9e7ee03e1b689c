"""Makes `.tools/pipeline`: a virtual environment with PySpark, and the Java packages that Spark resolves from Maven by name."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.local import interpreters
from services.local.python_setup import fingerprint_of, ignore, is_stamped, run_logged, tell_progress

EXTRAS = "pipeline-test"
USED = "services.pipeline.jobs.running, services.pipeline.spark.session, pyspark.worker, confluent_kafka.admin, pandas, pyarrow"
"""What jobs import. pip would compile 74 MB of source for them, most of it for nobody."""
MAY_COMPILE = ("env", "-u", "PYTHONDONTWRITEBYTECODE")
TELL_EVERY_S = 10.0


def pipeline_folder(root: Path) -> Path:
    return root / ".tools" / "pipeline"


def pipeline_python(root: Path) -> Path:
    return pipeline_folder(root) / "venv" / "bin" / "python"


def set_up_pipeline(root: Path, *, say: Callable[[str], None]) -> Path:
    """Returns the Python to run the pipeline with. The first time it downloads 600 MB, and says how far it is."""
    folder, python = pipeline_folder(root), pipeline_python(root)
    packages = (root / "services" / "pipeline" / "spark" / "packages.py").read_text(encoding="utf-8")
    stamp = folder / "pipeline.stamp"
    if is_stamped(stamp, fingerprint_of(root, python) + packages) and python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        run_logged([interpreters.choose(say), "-m", "venv", str(folder / "venv")], root, None, ignore)
    with report_growth(folder, say):
        say(f"pipeline: installing penstock[{EXTRAS}] with the versions of constraints.txt, about 600 MB to download")
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        install = [*pip, "--no-compile", "-c", "constraints.txt", "-e", f".[{EXTRAS}]"]
        run_logged(install, root, folder / "setup.log", lambda line: tell_progress(line, say))
        run_logged([*MAY_COMPILE, str(python), "-c", f"import {USED}"], root, None, ignore)
        say("pipeline: resolving the Java packages of services/pipeline/spark/packages.py from Maven")
        run_logged([*MAY_COMPILE, str(python), "-m", "services.pipeline.spark.resolving"], root, folder / "resolving.log", ignore)
    stamp.write_text(fingerprint_of(root, python) + packages, encoding="utf-8")
    return python


@contextmanager
def report_growth(folder: Path, say: Callable[[str], None], every_s: float = TELL_EVERY_S) -> Iterator[None]:
    """pip and Ivy say nothing for minutes while they download and unpack. What they have written meanwhile tells that they live.

    Temporary files go into the folder as well, and are counted.
    """
    temporary, former = folder / "tmp", os.environ.get("TMPDIR")
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    ended, started_s = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(every_s):
            say(f"pipeline: {time.monotonic() - started_s:.0f} s, {megabytes(folder)} MB in {folder.parent.name}/{folder.name}")

    telling = threading.Thread(target=tell, name="progress", daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
        if former is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = former
        shutil.rmtree(temporary, ignore_errors=True)


def megabytes(folder: Path) -> int:
    """The size of all files below. What goes away meanwhile counts for nothing."""
    size = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(directory, name)).st_size
            except FileNotFoundError:
                continue
    return size >> 20
