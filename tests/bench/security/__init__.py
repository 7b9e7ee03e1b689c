"""What security costs: ACLs, and TLS with thousands of connections. It may import the rest of the benchmark."""
