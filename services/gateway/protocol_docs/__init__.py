"""docs/protocol.md, made from the table of APIs and the list of differences. It imports `handlers`."""
