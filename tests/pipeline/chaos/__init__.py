"""Jobs that are killed at every step, run again, and must give exactly what they should.

`python -m tests.pipeline.chaos --runs 100`.
"""
