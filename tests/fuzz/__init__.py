"""Coverage-guided fuzzing of everything that reads bytes from outside: `make fuzz` (docs/fuzzing.md).

`targets/` has one module for each kind of bytes, with `check`, the oracle for one input, and `seeds`, the corpus that it starts
from. They do not import atheris, so `test_targets.py` checks every seed in `make test`. `fuzzed.py` runs one target under
atheris.
"""
