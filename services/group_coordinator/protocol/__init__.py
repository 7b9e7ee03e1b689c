"""The wire side of group requests: decoding, commits that repeat, malformed requests. It imports `core` and libs/wire."""
