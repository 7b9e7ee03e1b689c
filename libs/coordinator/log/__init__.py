"""The internal topic's partition as its owner reaches it: the port, and its adapter over RPC. It imports `core`."""
