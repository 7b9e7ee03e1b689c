"""The types that all rooms of the log share: a topic's log config, the checkpoints of a log, and the errors that a log raises. It
imports no other room."""
