"""Groups of every kind, as offsets and operators see them."""
