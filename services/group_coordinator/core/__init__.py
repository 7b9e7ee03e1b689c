"""Groups and offsets as pure decisions and replays: no I/O, no clock."""
