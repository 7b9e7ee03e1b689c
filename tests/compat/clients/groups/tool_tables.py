"""The tables that Kafka's tools print."""

Row = dict[str, str]


def rows(printed: str) -> list[Row]:
    """The rows of all tables that have a heading line in capitals; other output is left out."""
    found: list[Row] = []
    headings: list[str] = []
    for line in printed.splitlines():
        words = line.split()
        if not words:
            headings = []
        elif len(words) > 1 and line == line.upper() and not any(word.isdigit() for word in words):
            headings = words
        elif headings and len(words) == len(headings):
            found.append(dict(zip(headings, words, strict=True)))
    return found
