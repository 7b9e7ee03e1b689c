"""Makes the partitions on this node what the cluster image says: opens logs, takes roles, revokes them, deletes. It imports
`replication`, `produce`, `disks` and `partition`."""
