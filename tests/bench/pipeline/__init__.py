"""Benchmarks of the pipeline on Spark: `.tools/pipeline/venv/bin/python -m tests.bench.pipeline.audit`."""
