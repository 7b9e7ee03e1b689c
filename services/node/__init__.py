"""A storage node and a gateway in one process (`python -m services.node`), which call each other without sockets. It composes the
two services as they are; no service imports it."""
