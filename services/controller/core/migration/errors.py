"""What stops a take-over."""


class CannotAdopt(Exception):
    """What Penstock cannot take over. The message says why, and what to do."""
