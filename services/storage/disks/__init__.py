"""Log directories: opening them, which replica lies where, what the controller is told of it. It imports `partition` and
`core`."""
