"""The quota manager: how fast each gateway may spend an entity's quota. Only its core is here, and no process uses it yet."""
