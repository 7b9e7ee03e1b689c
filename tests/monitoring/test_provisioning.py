"""What Compose's profile `tracing` gives to Prometheus and Grafana fits together, and Prometheus takes its configuration."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.docs.house_rules import ROOT
from tests.monitoring.monitoring_files import FOLDER, RULES
from tests.support.requirements import require

COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def content(name: str) -> Any:
    """A configuration file that Compose lays into containers."""
    return yaml.safe_load((ROOT / COMPOSE["configs"][name]["file"]).read_text(encoding="utf-8"))


def mounts(service: str) -> dict[str, Path]:
    """Folders of the repository that a container sees, by their place in it."""
    found = [each.split(":") for each in COMPOSE["services"][service]["volumes"] if each.startswith("./")]
    return {place: ROOT / folder for folder, place, _ in found}


def test_prometheus_takes_its_configuration_and_the_rules(tmp_path: Path) -> None:
    require("prometheus")
    ((place, folder),) = mounts("prometheus").items()
    assert folder == RULES.parent
    configuration = content("prometheus")
    configuration["rule_files"] = [each.replace(place, str(folder)) for each in configuration["rule_files"]]
    assert configuration["rule_files"] == [f"{folder}/*.yaml"]
    files = {
        each["target"]: ROOT / COMPOSE["configs"][each["source"]]["file"] for each in COMPOSE["services"]["prometheus"]["configs"]
    }
    for job in configuration["scrape_configs"]:
        if given := job.get("authorization"):
            given["credentials_file"] = str(files[given["credentials_file"]])
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    done = subprocess.run(["promtool", "check", "config", "prometheus.yaml"], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_compose_writes_nothing_into_a_container_whose_root_is_read_only() -> None:
    """Docker refuses it, and so the container would not start. A file is mounted."""
    assert all(service["read_only"] for service in COMPOSE["services"].values())
    assert all(given.keys() == {"file"} for given in COMPOSE["configs"].values())


def test_grafana_finds_the_dashboards() -> None:
    ((place, folder),) = mounts("grafana").items()
    (provider,) = content("grafana-dashboards")["providers"]
    assert (provider["options"]["path"], folder) == (place, FOLDER)
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (folder / home.removeprefix(f"{place}/")).exists()


def test_a_point_on_a_latency_panel_leads_to_a_source_of_traces() -> None:
    sources = {source["uid"]: source for source in content("grafana-sources")["datasources"]}
    (link,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert link["name"] == "trace_id"
    assert sources[link["datasourceUid"]]["type"] == "jaeger"


def test_a_target_has_no_label_that_a_metric_has() -> None:
    """Prometheus would rename the metric's own."""
    jobs = content("prometheus")["scrape_configs"]
    assert [job for job in jobs for group in job["static_configs"] if "labels" in group] == []


def test_all_of_the_profile_is_published_on_loopback_only() -> None:
    of_profile = [each for each in COMPOSE["services"].values() if each.get("profiles")]
    assert {profile for each in of_profile for profile in each["profiles"]} == {"tracing"}
    ports = [port for each in of_profile for port in each.get("ports", ())]
    assert len(ports) >= 2
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:\$\{PENSTOCK_\w+_PORT:-\d+\}:\d+", port)] == []
