"""The gateway's decisions without I/O: sessions, routing, fetch plans, request templates, timeouts."""
