"""The log as its owner uses it, the log directory that holds it, and its copy in another directory. It imports all rooms but
`inspection`."""
