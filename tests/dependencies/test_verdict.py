"""What `make audit` says of pip-audit's reports."""

from typing import Any

from tests.dependencies.verdict import verdict

PINS = {"aiohttp": "3.1", "PyJWT": "2.1", "lazy_importer": "0.1"}
AUDITED = [{"name": name, "version": "1", "vulns": list[Any]()} for name in ("aiohttp", "pyjwt", "lazy-importer")]


def vulnerable(*fixes: str) -> dict[str, Any]:
    advisory = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": list(fixes), "description": ""}
    return {"dependencies": [{"name": "aiohttp", "version": "3.1", "vulns": [advisory]}, *AUDITED[1:]]}


def test_packages_without_advisories_pass() -> None:
    found = verdict({"dependencies": AUDITED}, PINS, {})
    assert found.passed
    assert found.lines == ("3 of 3 packages audited, 0 open advisories",)


def test_a_registry_that_tells_nothing_is_no_clean_bill() -> None:
    """Regression: pip-audit ends with 0 and `No known vulnerabilities found` where the registry has no advisories at all."""
    skipped = [{"name": entry["name"], "skip_reason": "not found on PyPI"} for entry in AUDITED]
    found = verdict({"dependencies": skipped}, PINS, {})
    assert not found.passed
    assert found.lines == (
        "not audited, since the registry told nothing about them: PyJWT, aiohttp, lazy_importer",
        "0 of 3 packages audited, 0 open advisories",
    )


def test_an_advisory_fails_and_names_its_fix() -> None:
    found = verdict(vulnerable("3.2", "4.0"), PINS, {})
    assert not found.passed
    assert "aiohttp 3.1: PYSEC-1, fixed in 3.2, 4.0" in found.lines
    assert "aiohttp 3.1: PYSEC-1, fixed in none" in verdict(vulnerable(), PINS, {}).lines


def test_an_advisory_may_be_accepted_by_each_of_its_ids() -> None:
    for name in ("PYSEC-1", "CVE-1"):
        assert verdict(vulnerable("3.2"), PINS, {name: "no server of aiohttp reads cookies here"}).passed


def test_what_is_accepted_and_no_longer_reported_fails() -> None:
    found = verdict({"dependencies": AUDITED}, PINS, {"CVE-1": "…"})
    assert not found.passed
    assert found.lines[0] == "CVE-1: accepted, and no longer reported: remove it from ACCEPTED"
