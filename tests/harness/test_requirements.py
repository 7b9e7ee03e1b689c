import pytest

from tests.support import requirements
from tests.support.requirements import require


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setitem(requirements.REQUIREMENTS, "abacus", (lambda: "no abacus on PATH", "buy one"))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PENSTOCK_REQUIRE_ALL", raising=False)


def test_a_missing_requirement_skips_a_test_and_says_what_to_do(missing):
    with pytest.raises(pytest.skip.Exception, match=r"needs abacus: no abacus on PATH \(buy one\)"):
        require("abacus")


@pytest.mark.parametrize("name", ["CI", "PENSTOCK_REQUIRE_ALL"])
def test_a_missing_requirement_fails_a_test_where_everything_must_run(missing, monkeypatch, name):
    monkeypatch.setenv(name, "true")
    with pytest.raises(pytest.fail.Exception, match="needs abacus"):
        require("abacus")


def test_a_requirement_that_is_met_lets_a_test_go_on(monkeypatch):
    monkeypatch.setitem(requirements.REQUIREMENTS, "abacus", (lambda: None, "buy one"))
    require("abacus")
