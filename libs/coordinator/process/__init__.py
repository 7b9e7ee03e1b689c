"""A whole coordinator process, how it hands its shards over when it stops, and what it finds slow. It imports `shards`."""
