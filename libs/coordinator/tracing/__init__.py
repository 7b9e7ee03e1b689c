"""Spans of clients' requests at their coordinators, made from times once they are answered. It imports `core`."""
