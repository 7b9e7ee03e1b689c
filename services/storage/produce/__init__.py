"""The append path: admission, batches that are validated in child processes, deferred appends, ownership of internal topics. It
imports `partition` and `core`."""
