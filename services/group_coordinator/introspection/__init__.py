"""The views of groups on the admin port: members, assignment, reasons of rebalances, lag. It imports `core` and below."""
