"""msgpack RPC between services: envelope, client, server, streams, and the contracts of each service in `contracts/`."""
