"""What Kafka's tools print in columns."""

Row = dict[str, str]


def rows(printed: str) -> list[Row]:
    """Of all tables with a line of headings, which are in capitals; whatever else was said is left out."""
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
