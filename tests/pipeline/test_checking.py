"""What `check` and `run` say of mistakes that only Spark sees: one sentence, which begins with the key of the job file."""

import pytest
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.file import parse_job_file
from services.pipeline.jobs.checking import needs_spark, refuse_by_spark

FILE = '[cluster]\nbootstrap_servers = "nowhere.invalid:1"\n[lake]\npath = "/lake"\n'
TOTALS = """
[jobs.totals]
kind = "transform"
topic = "totals"
query = "SELECT customer AS key, value FROM orders"
[jobs.totals.inputs.orders]
topics = ["orders"]
select = ["timestamp", "value", "CAST(key AS STRING) AS customer"]
"""
COUNTED = TOTALS.replace(
    "customer AS key, value FROM orders", "customer AS key, CAST(count(*) AS STRING) AS value FROM orders GROUP BY 1"
)
LAKE_JOB = '[jobs.a]\nkind = "archive"\ntopics = ["t"]\n'
REPLAY = '[jobs.again]\nkind = "replay"\ntable = "/lake/a"\ntopic = "t2"\n'


def checked(spark: SparkSession, jobs: str) -> None:
    file = parse_job_file(FILE + jobs)
    assert any(map(needs_spark, file.jobs.values()))
    refuse_by_spark(spark, file)


@pytest.mark.parametrize(
    "jobs",
    [
        TOTALS,
        TOTALS.replace('"value",', '"from_json(CAST(value AS STRING), \'n INT\') AS given", "CAST(given.n AS STRING) AS value",'),
        COUNTED.replace('topic = "totals"', 'topic = "totals"\noutput_mode = "update"'),
        LAKE_JOB + 'schema = { format = "json", ddl = "n INT" }',
        LAKE_JOB.replace('topics = ["t"]', 'topic_pattern = "t.*"'),
        REPLAY + "slice.where = \"offset > 1 AND parsed.n = 'x'\"",
    ],
)
def test_what_spark_takes_passes(spark: SparkSession, jobs: str) -> None:
    checked(spark, jobs)


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        (TOTALS.replace('"value"', '"valu"'), r"^jobs\.totals\.inputs\.orders\.select\[1\]: Spark refuses it: .*`valu`"),
        (
            TOTALS.replace('"value"', '"from_json(value"'),
            r"^jobs\.totals\.inputs\.orders\.select\[1\]: Spark refuses it: \[",
        ),
        (TOTALS.replace("SELECT customer", "SELECT nobody"), r"^jobs\.totals\.query: Spark refuses it: .*`nobody`"),
        (TOTALS.replace("FROM orders", "FROM order"), r"^jobs\.totals\.query: Spark refuses it: "),
        (
            TOTALS.replace("customer AS key, value FROM orders", "'k' AS key, 'v' AS value"),
            r"^jobs\.totals\.query: it reads none",
        ),
        (
            TOTALS.replace("AS key, value", "AS key, timestamp AS value"),
            r"^jobs\.totals\.query: column value has type timestamp",
        ),
        (
            f'{TOTALS}watermark = {{ column = "customer", delay = "1 hour" }}',
            r"^jobs\.totals\.inputs\.orders\.watermark: Spark refuses it: ",
        ),
        (COUNTED, r"^jobs\.totals\.output_mode: Spark refuses it: .*[Aa]ppend"),
        (LAKE_JOB + 'schema = { format = "json", ddl = "n NUMBER" }', r"^jobs\.a\.schema\.ddl: the json schema is wrong: "),
        (
            LAKE_JOB.replace('topics = ["t"]', 'topic_pattern = "a("'),
            r"^jobs\.a\.topic_pattern is 'a\(', which is no Java",
        ),
        (TOTALS.replace('topics = ["orders"]', 'topic_pattern = "a("'), r"^jobs\.totals\.inputs\.orders\.topic_pattern is 'a\('"),
        (REPLAY + 'slice.where = "offset >"', r"^jobs\.again\.slice\.where: Spark refuses it: \[PARSE"),
    ],
)
def test_what_spark_refuses_is_named_by_its_key(spark: SparkSession, jobs: str, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence) as caught:
        checked(spark, jobs)
    assert "\n" not in str(caught.value)


def test_a_file_without_sql_schemas_and_patterns_needs_no_spark() -> None:
    file = parse_job_file(FILE + LAKE_JOB + REPLAY)
    assert not any(map(needs_spark, file.jobs.values()))
