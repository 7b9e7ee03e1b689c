"""One file for each kind of job: it composes the rooms below into something that runs. `kinds.py` lists them."""
