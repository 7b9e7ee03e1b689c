"""The log directories of replicas, and new ones for replicas whose directory is lost (KIP-858). Pure."""
