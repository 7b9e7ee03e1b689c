"""Pure functions from DataFrame to DataFrame: no input, no output, no clock but Spark's own.

They import PySpark and, for Protobuf values, PyArrow and `services.pipeline.protobuf`.
"""
