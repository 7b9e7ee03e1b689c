"""The adapters of the store port in memory: for tests and the simulator, and for a cluster in one process. They import the port
and its records only."""
