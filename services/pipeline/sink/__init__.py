"""The exactly-once sink: rows become records of transactions, and a ledger topic says which tasks of which epoch are written.

It may import `libs.client`, `libs.wire`, `services.pipeline.transforms` and `services.pipeline.errors`. PySpark is imported only
in `data_source.py`, `writing.py` and `encoded_headers.py`; the rest is Arrow, numpy and the Kafka protocol.
"""
