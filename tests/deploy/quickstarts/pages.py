"""The pages of docs/use/quick-starts/, and what each needs to run."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.clients.groups.builds import GO_QUICKLY
from tests.pipeline.conftest import JVM_OF_SHORT_RUNS
from tests.support.requirements import ROOT

FOLDER = ROOT / "docs" / "use" / "quick-starts"
BUILDS = ROOT / ".tools" / "quick-starts"
NO_COMPILE = {"PIP_NO_COMPILE": "1"}
"""pip leaves bytecode to the processes that import something: most of what is installed, none does."""


@dataclass(frozen=True)
class QuickStart:
    needs: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    """What makes it cheaper here than for a reader. It changes no command and no file."""


def page_file(language: str) -> Path:
    return FOLDER / f"{language}.md"


QUICK_STARTS = {
    # With the flags of etcd's build and of the tests' own programs: what these have compiled comes from the cache.
    "go": QuickStart(("go",), {"CGO_ENABLED": "0", "GOFLAGS": f"-trimpath '{GO_QUICKLY}'"}),
    "java": QuickStart(("java", "maven")),
    "javascript": QuickStart(("node",)),
    "python": QuickStart(("python-venv",), NO_COMPILE),
    # A second run builds nothing, and librdkafka compiles in half the time without optimisation. Nobody debugs it.
    "rust": QuickStart(
        ("cargo", "c-compiler"),
        {
            "CARGO_TARGET_DIR": str(BUILDS / "rust"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_INCREMENTAL": "0",
            "CFLAGS": "-O0 -g0",
            "CXXFLAGS": "-O0 -g0",
        },
    ),
    "spark": QuickStart(("java", "python-venv"), {**NO_COMPILE, "SPARK_SUBMIT_OPTS": JVM_OF_SHORT_RUNS}),
}
