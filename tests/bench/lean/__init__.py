"""Load by a lean generator in C: `build.py` compiles it once, `generator.py` runs it, `cases.py` has the cases of `make bench`.

A generator in Python takes a core, and so hides what the server needs. This one takes a tenth of it. It shares no code with what
it measures, and knows two requests only: Produce 9 and Fetch 12.
"""
