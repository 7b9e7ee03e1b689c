"""Job files: what they may say, and the one sentence for what they may not."""

from dataclasses import dataclass

import pytest

from services.pipeline.errors import InvalidJobFile, PipelineError
from services.pipeline.job_file.file import parse_job_file, read_job_file
from services.pipeline.job_file.job import Job, LakeSettings
from services.pipeline.job_file.reader import TableReader
from services.pipeline.job_file.streams import StreamSettings, Trigger, read_stream_settings, read_topics
from services.pipeline.spark.cluster import Topics


@dataclass(frozen=True, kw_only=True)
class CopyJob(Job):
    topics: Topics
    stream: StreamSettings


def read_copy_job(table: TableReader, name: str, lake: LakeSettings) -> Job:
    return CopyJob(name=name, topics=read_topics(table), stream=read_stream_settings(table, job=name, lake_path=lake.path))


READERS = {"copy": read_copy_job}
FILE = """
[cluster]
bootstrap_servers = "127.0.0.1:9092"
options.security.protocol = "PLAINTEXT"

[lake]
path = "/tmp/lake/"

[jobs.orders]
kind = "copy"
topics = ["orders"]
"""


def test_a_file_with_defaults() -> None:
    file = parse_job_file(FILE, READERS)
    assert file.cluster.options == {"security.protocol": "PLAINTEXT"}
    assert (file.spark.master, file.lake) == (None, LakeSettings("/tmp/lake", "parquet"))
    stream = StreamSettings("/tmp/lake/_checkpoints/orders", "penstock-pipeline-orders", Trigger())
    assert file.jobs == {"orders": CopyJob(name="orders", topics=Topics(("orders",)), stream=stream)}


def test_jobs_are_chosen_in_the_files_order() -> None:
    file = parse_job_file(FILE + '[jobs.two]\nkind = "copy"\ntopic_pattern = "b.*"\ntrigger = "10 seconds"', READERS)
    assert [job.name for job in file.chosen([])] == [job.name for job in file.chosen(["two", "orders"])] == ["orders", "two"]
    with pytest.raises(PipelineError, match=r"there is no job 'three' in the file; it has orders, two"):
        file.chosen(["three"])


@pytest.mark.parametrize(
    ("part", "other", "complaint"),
    [
        ('kind = "copy"', 'kind = "archve"', r"jobs\.orders\.kind is 'archve'; allowed is 'copy'"),
        ('kind = "copy"', "", r"jobs\.orders\.kind is missing; it is 'copy'"),
        ('topics = ["orders"]', "", r"jobs\.orders\.topics is missing; it is a list of topics' names, unless"),
        ('topics = ["orders"]', 'topic = ["orders"]', r"there is no key jobs\.orders\.topic; did you mean topics\?"),
        ('topics = ["orders"]', 'topics = ["o"]\ntopic_pattern = "o.*"', r"one of topics and topic_pattern; both are given"),
        ('topics = ["orders"]', 'topics = ["a b"]', r"jobs\.orders\.topics is 'a b'; allowed is a topic name"),
        ('topics = ["orders"]', "topics = []", r"jobs\.orders\.topics is \[\]; allowed is a list of strings, at least one"),
        ('topics = ["orders"]', 'topics = ["o"]\ntopic = "p"', r"there is no key jobs\.orders\.topic; did you mean topics\?"),
        (
            'topics = ["orders"]',
            'topics = ["o"]\ntrigger = "hourly"',
            r"jobs\.orders\.trigger is 'hourly'; allowed is 'available now'",
        ),
        ('topics = ["orders"]', 'topics = ["o"]\nmax_offsets_per_trigger = -1', r"max_offsets_per_trigger is -1; .* from 0"),
        ('bootstrap_servers = "127.0.0.1:9092"', "", r"cluster\.bootstrap_servers is missing; it is a string"),
        ("[jobs.orders]", '[jobs."or ders"]', "a job is called 'or ders'"),
        ('path = "/tmp/lake/"', 'path = "/tmp/lake/"\nformat = "orc"', r"lake\.format is 'orc'; allowed is 'parquet' or 'delta'"),
        (
            'path = "/tmp/lake/"',
            'path = "/l"\n[spark.config]\n"spark.sql.session.timeZone" = "CET"',
            r"timeZone = 'CET'; .* need 'UTC'",
        ),
        ("[lake]", "[like]", "lake is missing; it is a table"),
        (
            'path = "/tmp/lake/"',
            'path = "//"',
            r"lake\.path is '//'; allowed is the path or URI of a folder, which is",
        ),
        ('path = "/tmp/lake/"', 'path = " "', r"lake\.path is ' '; allowed is the path or URI of a folder"),
        ('path = "/tmp/lake/"', 'path = "file:lake"', r"lake\.path is 'file:lake'; allowed is a path, or a URI with a slash"),
        (
            'path = "/tmp/lake/"',
            'path = "2026:11/x"',
            r"lake\.path is '2026:11/x'; .* has ':' begins with './'",
        ),
        ('path = "/tmp/lake/"', 'path = "s3a://"', r"lake\.path is 's3a://'; allowed is the path or URI of a folder"),
        ('path = "/tmp/lake/"', f'path = "{__file__}"', r"lake\.path is '.*'; allowed is .* of a folder, and /.* is a file"),
        ('path = "/tmp/lake/"', f'path = "file://{__file__}/a"', rf"lake\.path is 'file:.*, and {__file__} is a file"),
        ('"PLAINTEXT"', '"SSL"\noptions.group.id = "g"', r"cluster\.options\.group\.id is not allowed: the jobs decide it"),
        ('"PLAINTEXT"', '"SSL"\noptions.auto.offset.reset = "latest"', r"options\.auto\.offset\.reset is not allowed"),
        (
            'topics = ["orders"]',
            f'topics = ["o"]\nmax_offsets_per_trigger = {1 << 63}',
            r"per_trigger is \d+; allowed",
        ),
        ("[lake]", "[sparks]\n[lake]", r"there is no key sparks; did you mean spark\?"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(part: str, other: str, complaint: str) -> None:
    assert part in FILE
    with pytest.raises(InvalidJobFile, match=complaint) as caught:
        parse_job_file(FILE.replace(part, other), READERS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("outer", "inner"), [("/lake/a", "/lake/a/deeper/b"), ("/lake/a", "/lake/a_dead_letters/b"), ("s3://lake/a", "s3://lake/a/b")]
)
def test_a_table_inside_of_another_one_is_refused(outer: str, inner: str) -> None:
    cluster = '[cluster]\nbootstrap_servers = "127.0.0.1:9092"\n[lake]\npath = "/lake"\n'
    archives = [f'[jobs.{name}]\nkind = "archive"\ntopics = ["t"]\npath = "{{}}"\n' for name in ("one", "two")]
    for first, second in ((outer, inner), (inner, outer)):
        text = cluster + archives[0].format(first) + archives[1].format(second)
        with pytest.raises(
            InvalidJobFile, match=r"jobs\.(one|two) writes .*, inside the table .* of jobs\.(one|two): give it another"
        ):
            parse_job_file(text)
    assert len(parse_job_file(cluster + archives[0].format(outer) + archives[1].format(f"{outer}b")).jobs) == 2


def test_a_file_that_is_not_there_or_no_toml(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidJobFile, match=r"jobs\.toml: No such file"):
        read_job_file(tmp_path / "jobs.toml")
    (tmp_path / "jobs.toml").write_text("[cluster", encoding="utf-8")
    with pytest.raises(InvalidJobFile, match=r"jobs\.toml: Expected"):
        read_job_file(tmp_path / "jobs.toml")
