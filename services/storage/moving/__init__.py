"""AlterReplicaLogDirs (KIP-113): a replica moves to another log directory of this node. It imports `reconcile`, `logs`, `disks`
and `partition`."""
