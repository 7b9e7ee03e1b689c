"""One request on its way through the gateway, and the request context that its handler sees. It imports `core`."""
