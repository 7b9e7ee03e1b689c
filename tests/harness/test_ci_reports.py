import subprocess
import sys

from tests.support.requirements import ROOT


def count(tmp_path, least: int, **numbers: int) -> str:
    """The output of .ci/count.py for a report with these numbers."""
    attributes = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite {attributes}/></testsuites>", encoding="utf-8")
    return run(str(report), str(least))


def run(*arguments: str, program: str = "count.py") -> str:
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / program, *arguments], capture_output=True, encoding="utf-8", check=True
    ).stdout.strip()


def test_enough_tests_that_passed_need_no_comment(tmp_path):
    assert count(tmp_path, 5, tests=7, failures=0, errors=0, skipped=0) == "7 0 0"


def test_failures_and_errors_are_both_bad(tmp_path):
    assert count(tmp_path, 5, tests=7, failures=2, errors=1, skipped=0) == "7 3 0"


def test_a_skip_is_a_complaint(tmp_path):
    assert count(tmp_path, 5, tests=7, failures=0, errors=0, skipped=1) == "6 0 1 - some were skipped"


def test_too_few_tests_are_a_complaint(tmp_path):
    assert count(tmp_path, 9, tests=7, failures=0, errors=0, skipped=0) == "7 0 0 - at least 9 were expected"


def test_no_report_is_a_complaint(tmp_path):
    assert run(str(tmp_path / "none.xml"), "3") == "0 0 0 - pytest wrote no report; at least 3 tests were expected"


def test_each_failure_is_named_with_its_reason(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_good"/>'
        '<testcase classname="tests.a" name="test_bad"><failure message="assert 1&#10;  == 2">long</failure></testcase>'
        '<testcase classname="tests.b" name="test_worse[x]"><error message="no cluster">long</error></testcase>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    told = run(str(report), program="failures.py")
    assert told.splitlines() == ["tests.a::test_bad: assert 1 == 2", "tests.b::test_worse[x]: no cluster"]


def test_without_a_report_no_failure_is_named(tmp_path):
    assert run(str(tmp_path / "none.xml"), program="failures.py") == ""
