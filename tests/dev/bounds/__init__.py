"""Numbers at their bounds, in every field of every request that is served."""
