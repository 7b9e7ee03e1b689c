"""Real clients on a cluster with TLS, SASL, certificates and ACLs: each application with what docs/security.md gives it."""
