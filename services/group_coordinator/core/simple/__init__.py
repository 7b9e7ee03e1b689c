"""Groups without members: simple ones, which only have offsets, and absent ones. Pure. It imports `classic` for a state."""
