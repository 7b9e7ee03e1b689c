"""Reassignment of replicas, and the check whether decommissioned nodes can be emptied. Pure."""
