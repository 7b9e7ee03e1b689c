"""The first line of `make status`, as the pages print it."""


def is_healthy(sentence: str) -> bool:
    """A healthy cluster may also name what is slow: on a busy machine a follower is."""
    return sentence.partition(":")[0] == "healthy"
