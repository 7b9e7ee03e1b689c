"""Transactions of clients that others wrote."""
