"""W3C trace contexts in record headers, and what a micro-batch counts of its records."""

from pyspark.sql import Column
from pyspark.sql import functions as F

CONTEXTS_MAX = 16
TRACEPARENT = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"


def traceparent() -> Column:
    """The record's `traceparent` header as text; null without a valid one. Needs a column `headers`."""
    named = F.filter("headers", lambda header: header["key"] == "traceparent")
    text = F.when(F.size("headers") > 0, F.get(named, F.lit(0))["value"].cast("string"))
    return F.when(text.rlike(TRACEPARENT), text)


def counts() -> list[Column]:
    """Aggregates: `rows` and `bytes` of keys and values."""
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    return [F.count("*").alias("rows"), F.coalesce(F.sum(size), F.lit(0)).alias("bytes")]


def sampled_contexts() -> list[Column]:
    """Aggregates `context_0` …: at most one trace context of each share of all, so that their number has a bound."""
    context = traceparent()
    share = F.pmod(F.xxhash64(context), F.lit(CONTEXTS_MAX))
    return [F.max(F.when(share == number, context)).alias(f"context_{number}") for number in range(CONTEXTS_MAX)]
