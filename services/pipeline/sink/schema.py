"""The columns that rows may have: those of Spark's own Kafka sink, and the record's timestamp."""

from collections.abc import Mapping

from services.pipeline.sink.client.errors import SinkError

HEADERS = "array<struct<key:string,value:binary>>"
ALLOWED = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (HEADERS,),
    "timestamp": ("timestamp",),
    "topic": ("string",),
    "partition": ("int",),
}


def check_columns(types: Mapping[str, str], topic: str | None) -> None:
    """`types`: of each column, as Spark's `simpleString` says. Raises SinkError."""
    for name, kind in types.items():
        if name not in ALLOWED:
            raise SinkError(f"the sink has no column {name}; it has {', '.join(ALLOWED)}")
        if kind not in ALLOWED[name]:
            raise SinkError(f"column {name} has type {kind}; the sink takes {' or '.join(ALLOWED[name])}")
    if "value" not in types:
        raise SinkError("the column value is missing")
    if topic is None and "topic" not in types:
        raise SinkError("neither the option topic nor a column topic says where rows go")
    if topic is not None and "topic" in types:
        raise SinkError(f"both the option topic={topic} and a column topic say where rows go: leave one of them out")
