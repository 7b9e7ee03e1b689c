"""The pauses that six real clients see when something fails, stops or comes back. Only `tests.bench` and its figures use it."""
