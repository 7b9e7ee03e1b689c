"""The data pipeline on Spark: topics into a lake of Parquet and Delta tables, and back (docs/pipeline.md).

It is a client of the cluster: it imports no other service, and of the libraries only `libs.client`, `libs.wire`, `libs.telemetry`
and `libs.host_port`.
"""
