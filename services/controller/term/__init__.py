"""One term of the active controller: the election key, and transactions that its create revision fences. It imports `core`."""
