"""The adapter of the store port for etcd. It imports the port and its records; nothing but a `__main__.py` imports it."""
