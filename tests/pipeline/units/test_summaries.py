"""The lines of `check`."""

from services.pipeline.job_file.file import parse_job_file
from services.pipeline.job_file.summaries import summary_of

FILE = """
[cluster]
bootstrap_servers = "b:1"
[lake]
path = "/lake"
[jobs.orders]
kind = "archive"
topics = ["orders", "returns"]
trigger = "10 seconds"
schema = { format = "json", ddl = "n INT" }
[jobs.check]
kind = "audit"
archive = "orders"
topic_pattern = "o.*"
[jobs.stock]
kind = "table"
topics = ["stock"]
[jobs.again]
kind = "replay"
table = "/lake/orders"
topic = "orders-again"
[jobs.totals]
kind = "transform"
query = "SELECT key, value FROM o"
topic = "totals"
[jobs.totals.inputs.o]
topics = ["orders"]
"""


def test_each_kind_of_job_is_told_in_a_line() -> None:
    lines = {name: summary_of(job) for name, job in parse_job_file(FILE).jobs.items()}
    assert lines == {
        "orders": "archive: orders, returns -> parquet /lake/orders, values parsed as json; every 10 seconds, "
        "until it is stopped; checkpoint /lake/_checkpoints/orders, group penstock-pipeline-orders",
        "check": "audit: topics like o.* against /lake/orders of orders, checkpoint /lake/_checkpoints/orders; "
        "report in audit-check",
        "stock": "table: stock -> delta /lake/stock; takes what is there, and ends; "
        "checkpoint /lake/_checkpoints/stock, group penstock-pipeline-stock",
        "again": "replay: /lake/orders -> topic orders-again; checkpoint /lake/_checkpoints/again",
        "totals": "transform: o (orders) -> topic totals; takes what is there, and ends; "
        "checkpoint /lake/_checkpoints/totals, group penstock-pipeline-totals",
    }
