"""Error codes against kio's."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from libs.wire.errors import ErrorCode


def test_there_are_no_other_codes() -> None:
    assert [int(code) for code in ErrorCode] == sorted(int(code.value) for code in KioErrorCode)


@pytest.mark.parametrize("theirs", list(KioErrorCode), ids=lambda code: code.name)
def test_names_and_retriability_are_those_of_kafka(theirs: KioErrorCode) -> None:
    ours = ErrorCode(int(theirs.value))
    assert ours.name.lower() == theirs.name
    assert ours.retriable == theirs.retriable
