"""The runtime of coordinators: decide, append, replay (docs/coordinators.md). It knows shards of an internal topic, and nothing
of groups or transactions. Its rooms, from high to low: `process` and `requests`, `shards`, `log`, `core`."""
