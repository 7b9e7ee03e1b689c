"""The types that all kinds of groups share: requests, records, events, settings, views of topics. It imports no other room."""
