"""A real Prometheus scrapes a real cluster with our rules, while the cluster is broken in every way that an alert tells."""
