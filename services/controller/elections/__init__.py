"""Elections, ordinary ones included: `partition_reconciler.py` brings partitions to the states that the core decides, and
`leader_elections.py` holds those that need a survey of logs. It imports `term` and `core`."""
