"""Protobuf values as plain Python: message types of a descriptor set, Confluent's frames, and the decoder of values into rows.

It imports Google's `protobuf` package, and neither PySpark nor another room.
"""
