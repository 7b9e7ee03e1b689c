"""Archive and table jobs in a job file."""

from pathlib import Path

import pytest

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.archive import ArchiveJob, Compaction
from services.pipeline.job_file.changelog_table import TableJob
from services.pipeline.job_file.file import parse_job_file, read_job_file
from services.pipeline.spark.value_schema import ValueSchema
from tests.support.requirements import ROOT

FILE = (
    '[cluster]\nbootstrap_servers = "b:1"\n[lake]\npath = "/lake"\nformat = "delta"\n[jobs.a]\nkind = "archive"\ntopics = ["t"]\n'
)


def test_an_archive_has_defaults() -> None:
    job = parse_job_file(FILE).jobs["a"]
    assert isinstance(job, ArchiveJob)
    assert (job.path, job.dead_letters_path, job.format) == ("/lake/a", "/lake/a_dead_letters", "delta")
    assert (job.on_data_loss, job.read_uncommitted, job.schema, job.retention_days) == ("stop", False, None, None)
    assert (job.compaction, job.keep_removed_minutes) == (Compaction(16, 128 << 20), 60)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('on_data_loss = "ignore"', "on_data_loss is 'ignore'; allowed is 'stop' or 'continue'"),
        ("keep_removed_minutes = -1", "keep_removed_minutes is -1; allowed is a whole number from 0"),
        ("retention_days = 0", "retention_days is 0; allowed is a whole number from 1"),
        ("compaction.min_files = 1", r"compaction\.min_files is 1; allowed is 0 \(never\) or a whole number from 2"),
        ('schema = { format = "xml", ddl = "a INT" }', r"schema\.format is 'xml'; allowed is 'json' or 'avro'"),
        ('schema = { format = "json" }', r"schema\.ddl is missing"),
        ('schema = { format = "json", ddl = "a INT", file = "x" }', r"there is no key jobs\.a\.schema\.file"),
        (
            'schema = { format = "avro", file = "/nowhere.avsc" }',
            r"schema\.file is '/nowhere.avsc'; allowed is a file with an Avro",
        ),
        ('path = "/lake/a[1]"', r"jobs\.a\.path is '/lake/a\[1\]'; allowed is a path without \* \? \[ "),
        ('isolation_level = "serializable"', "allowed is 'read_committed' or 'read_uncommitted'"),
    ],
)
def test_what_an_archive_may_not_have(line: str, complaint: str) -> None:
    with pytest.raises(InvalidJobFile, match=complaint):
        parse_job_file(FILE + line)


@pytest.mark.parametrize("character", "*?[]{}\\`")
def test_a_lake_whose_path_is_a_pattern_is_refused(character: str) -> None:
    with pytest.raises(
        InvalidJobFile, match=r"^lake\.path is .*; allowed is a path without .*: Spark takes them for patterns or quotes$"
    ):
        parse_job_file(FILE.replace('"/lake"', f"'/lake/x{character}'"))


def test_an_avro_schema_is_read_from_its_file(tmp_path: Path) -> None:
    text = '{"type": "record", "name": "r", "fields": []}'
    (tmp_path / "r.avsc").write_text(text, encoding="utf-8")
    file = parse_job_file(f'{FILE}schema = {{ format = "avro", file = "{tmp_path}/r.avsc", framing = "confluent", ids = [4] }}')
    job = file.jobs["a"]
    assert isinstance(job, ArchiveJob)
    assert job.schema == ValueSchema("avro", text, "confluent", ids=(4,))


def test_values_of_json_in_frames_may_have_any_schema_id_or_those_that_are_named() -> None:
    for given, ids in (("", ()), (", ids = [9, 2]", (2, 9))):
        file = parse_job_file(f'{FILE}schema = {{ format = "json", ddl = "n INT", framing = "confluent"{given} }}')
        job = file.jobs["a"]
        assert isinstance(job, ArchiveJob)
        assert job.schema == ValueSchema("json", "n INT", "confluent", ids=ids)


def test_the_example_is_a_job_file() -> None:
    file = read_job_file(ROOT / "services" / "pipeline" / "examples" / "packages.toml")
    assert [type(job) for job in file.jobs.values()] == [ArchiveJob, TableJob]
