"""Each page of docs/use/quick-starts/ runs as it is printed, on one cluster for all."""

from pathlib import Path

import pytest

from tests.deploy.quickstarts.pages import QUICK_STARTS, page_file
from tests.support.cluster_harness import LocalCluster
from tests.support.printed_pages import parse_page, run_page
from tests.support.requirements import require

TIMEOUT_S = 900.0  # with cold caches on a busy machine


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("language", QUICK_STARTS)
def test_a_quick_start_runs_as_it_is_printed(language: str, cluster: LocalCluster, tmp_path: Path) -> None:
    quick_start = QUICK_STARTS[language]
    require(*quick_start.needs)
    page = parse_page(page_file(language).read_text(encoding="utf-8"))
    run_page(page, tmp_path, cluster.bootstrap, timeout_s=TIMEOUT_S, environment=quick_start.environment)
