"""The quota manager: how fast each gateway may spend an entity's quota, as docs/quotas.md explains."""
