"""The methods of each service and their messages, as frozen dataclasses, one module per service. They import the RPC schema
only."""
