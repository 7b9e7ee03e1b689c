"""Clients' requests on their way to a shard: decoded, deferred, or refused as malformed. It imports `shards` and `core`."""
