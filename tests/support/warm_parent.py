"""One process of a test run from which the services of its clusters are forked (`services/local/warm_parent.py`)."""

import atexit
import os
from collections.abc import Mapping
from functools import cache

from services.local import warm_processes
from services.local.cluster import StartWarm
from services.local.python_setup import venv_python
from services.local.warm_parent import WarmParent
from services.local.warm_processes import shared
from tests.support.requirements import ROOT

ROLES = ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway", "node")
UNDER_PYTEST = "PYTEST_VERSION"
OF_PYTEST = "PYTEST_"
"""Variables that differ between tests, and that no service reads."""


def warm_parent() -> WarmParent:
    """One for this checkout."""
    return WarmParent(ROOT, venv_python(ROOT), ROLES, variables_of=_without_pytest)


def _without_pytest(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in shared(environment).items() if not name.startswith(OF_PYTEST)}


def start_warm() -> StartWarm:
    """How the clusters of this process start services. Benchmarks measure starts, so theirs are the usual ones."""
    return _of_this_process().start if UNDER_PYTEST in os.environ else warm_processes.start


@cache
def _of_this_process() -> WarmParent:
    parent = warm_parent()
    atexit.register(parent.close)
    return parent
