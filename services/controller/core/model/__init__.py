"""The types that the rooms of the core share: replica health, refusals, the controller's own states. It imports no other room."""
