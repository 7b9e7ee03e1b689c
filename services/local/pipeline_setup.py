"""Makes `.tools/pipeline`: a virtual environment with PySpark, and the Java packages that Spark resolves from Maven by name."""

from collections.abc import Callable
from pathlib import Path

from services.local import interpreters
from services.local.python_setup import fingerprint_of, ignore, is_stamped, run_logged, tell_progress

EXTRAS = "pipeline-test"


def pipeline_folder(root: Path) -> Path:
    return root / ".tools" / "pipeline"


def pipeline_python(root: Path) -> Path:
    return pipeline_folder(root) / "venv" / "bin" / "python"


def set_up_pipeline(root: Path, *, say: Callable[[str], None]) -> Path:
    """Returns the Python to run the pipeline with. The first time it downloads about 600 MB."""
    folder, python = pipeline_folder(root), pipeline_python(root)
    packages = (root / "services" / "pipeline" / "spark" / "packages.py").read_text(encoding="utf-8")
    fingerprint = fingerprint_of(root) + packages
    stamp = folder / "pipeline.stamp"
    if is_stamped(stamp, fingerprint) and python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        run_logged([interpreters.choose(say), "-m", "venv", str(folder / "venv")], root, None, ignore)
    say(f"pipeline: installing penstock[{EXTRAS}] with the versions of constraints.txt")
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    install = [*pip, "-c", "constraints.txt", "-e", f".[{EXTRAS}]"]
    run_logged(install, root, folder / "setup.log", lambda line: tell_progress(line, say))
    say("pipeline: resolving the Java packages of services/pipeline/spark/packages.py from Maven")
    run_logged([str(python), "-m", "services.pipeline.spark.resolving"], root, folder / "resolving.log", ignore)
    stamp.write_text(fingerprint, encoding="utf-8")
    return python
