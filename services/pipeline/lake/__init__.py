"""Tables of the lake: Delta, and Parquet with a commit log of our own. They append whole batches, once each.

`table.py` is for readers, `writing.py` for the jobs that write. It may import `services.pipeline.spark` and pure transforms.
"""
