"""A refusal names commands that reach the same cluster."""

import pytest

from services.local.__main__ import main
from services.local.hints import with_given


@pytest.mark.parametrize(
    ("run", "port", "said"),
    [
        (".run", None, "`make down` first, then `make up STORAGE=4`"),
        ("/data/a", None, "`make down RUN=/data/a` first, then `make up RUN=/data/a STORAGE=4`"),
        ("my run", "9192", "`make down RUN='my run'` first, then `make up RUN='my run' PORT=9192 STORAGE=4`"),
        (".run", "9192", "`make down` first, then `make up PORT=9192 STORAGE=4`"),
    ],
)
def test_hints_repeat_what_was_given(run: str, port: str | None, said: str) -> None:
    assert with_given("`make down` first, then `make up STORAGE=4`", run, port) == said


@pytest.mark.parametrize("message", ["choose another RUN=", "`make setup` first", "`make up RUN=/there` runs it"])
def test_other_words_stay_as_they_are(message: str) -> None:
    assert with_given(message, "/data/a", "9192") == message


def test_a_refusal_of_the_command_names_the_cluster_that_was_asked_for(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upgrade", f"--run={tmp_path / 'none'}"]) == 1
    assert capsys.readouterr().err.endswith(f"; `make up RUN={tmp_path / 'none'}` makes one\n")
