"""Job files of the kinds `transform` and `replay`."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.file import parse_job_file, read_job_file
from services.pipeline.job_file.replay import LakeSlice, RateLimit, ReplayJob
from services.pipeline.job_file.transform import TransformJob, Watermark

HEAD = """
[cluster]
bootstrap_servers = "127.0.0.1:9092"
[lake]
path = "/lake"
[jobs.one]
"""
REPLAY = HEAD + 'kind = "replay"\ntable = "/lake/orders"\ntopic = "again"\n'
ARCHIVE = HEAD + 'kind = "archive"\ntopics = ["a"]\n'
TRANSFORM = HEAD + 'kind = "transform"\nquery = "SELECT * FROM a"\ntopic = "b"\n[jobs.one.inputs.a]\ntopics = ["a"]\n'


def test_the_example_has_both_kinds(root: Path) -> None:
    jobs = read_job_file(root / "services/pipeline/examples/topics.toml").jobs
    totals, again = jobs["totals"], jobs["again"]
    assert isinstance(totals, TransformJob)
    assert totals.inputs["orders"].watermark == Watermark("timestamp", "2 hours")
    assert isinstance(again, ReplayJob)
    assert again.rows == LakeSlice(keys=("customer-3",), where="offset >= 100")
    assert again.limit == RateLimit(records=5000)


def test_times_of_a_slice_are_utc_unless_they_say_otherwise() -> None:
    text = (
        REPLAY
        + 'slice.since = "2026-11-27T09:00:00"\nslice.until = "2026-11-27T12:00:00+02:00"\nsink.kafka.compression.type = "lz4"'
    )
    job = parse_job_file(text).jobs["one"]
    assert isinstance(job, ReplayJob)
    assert (job.rows.since, job.rows.until) == (datetime(2026, 11, 27, 9, tzinfo=UTC), datetime(2026, 11, 27, 10, tzinfo=UTC))
    assert job.target.options == {"kafka.compression.type": "lz4"}


@pytest.mark.parametrize("delay", ["2 hours", "1 hour 30 minutes", "0 seconds", "interval 1.5 seconds", "10 Minutes"])
def test_a_watermark_may_be_late_by_any_interval(delay: str) -> None:
    job = parse_job_file(TRANSFORM + f'watermark = {{column = "timestamp", delay = "{delay}"}}').jobs["one"]
    assert isinstance(job, TransformJob)
    assert job.inputs["a"].watermark == Watermark("timestamp", delay)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (REPLAY + 'slice.since = "yesterday"', r"jobs\.one\.slice\.since is 'yesterday'; allowed is a time such as"),
        (REPLAY + 'slice.since = "0001-01-01T00:00:00+05:00"', r"since is '0001-.*; allowed is .* from 1970 to 9999 in UTC"),
        (REPLAY + 'slice.until = "9999-12-31T23:59:59-01:00"', r"until is '9999-.*; allowed is .* from 1970 to 9999 in UTC"),
        (REPLAY + f"tasks = {1 << 31}", r"tasks is \d+; allowed is a whole number from 1 to 100000"),
        (REPLAY.replace("/lake/orders", "/"), r"jobs\.one\.table is '/'; allowed is the path or URI of a folder"),
        (ARCHIVE + "retention_days = 999999", r"retention_days is 999999; allowed is a whole number from 1 to 36500"),
        (TRANSFORM.replace('topic = "b"', 'topic = "a"'), r"jobs\.one\.topic is 'a', which is a topic of its inputs; allowed is"),
        (TRANSFORM.replace('[jobs.one.inputs.a]\ntopics = ["a"]\n', "[jobs.one.inputs]"), r"inputs is {}; allowed is a table"),
        (
            TRANSFORM + 'watermark = {column = "timestamp", delay = "-2 hours"}',
            r"delay is '-2 hours'; allowed is an interval",
        ),
        (TRANSFORM + 'watermark = {column = "timestamp", delay = "soon"}', r"watermark\.delay is 'soon'; allowed is an interval"),
        (REPLAY + 'partition = "same"', r"jobs\.one\.partition is 'same'; allowed is 'of the key' or 'as it was'"),
        (REPLAY + "records_per_second = 0", r"records_per_second is 0; allowed is a whole number from 1"),
        (REPLAY + "sink.epoch = 3", r"jobs\.one\.sink\.epoch is not allowed: the job decides it"),
        (REPLAY + 'sink.sink.id = "a"', r"jobs\.one\.sink\.sink\.id is not allowed: the job decides it"),
        (TRANSFORM.replace('topic = "b"', "sink.Epoch = 3"), r"jobs\.one\.sink\.Epoch is not allowed"),
        (REPLAY + 'slice.key = "a"', r"there is no key jobs\.one\.slice\.key; did you mean keys\?"),
        (TRANSFORM.replace('query = "SELECT * FROM a"', ""), r"jobs\.one\.query is missing"),
        (TRANSFORM + 'watermark = {column = "timestamp"}', r"jobs\.one\.inputs\.a\.watermark\.delay is missing"),
        (TRANSFORM + 'topic = "x"', r"there is no key jobs\.one\.inputs\.a\.topic; did you mean topics\?"),
        (
            TRANSFORM.replace('topic = "b"', 'output_mode = "complete"'),
            r"output_mode is 'complete'; allowed is 'append' or 'update'",
        ),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(InvalidJobFile, match=complaint):
        parse_job_file(text)
