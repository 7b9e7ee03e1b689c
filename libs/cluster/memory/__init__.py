"""The adapter of the store port in memory, for tests and the simulator. It imports the port and its records only."""
