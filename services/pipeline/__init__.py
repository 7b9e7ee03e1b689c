"""The data pipeline on Spark: topics into a lake of Parquet and Delta tables, and back (docs/pipeline.md).

It is a client of the cluster: it may import `libs.wire` and `libs.telemetry`, and nothing of the other services.
"""
