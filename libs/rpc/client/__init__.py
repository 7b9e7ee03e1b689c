"""The calling side: a client of one server over one connection, how it notices silence, and a probe of an address. It imports
`messages` and `transport`."""
