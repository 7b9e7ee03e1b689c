"""A whole cluster in one process, for development and tests (`penstock dev`): the services as they are, composed over a metadata
store in memory. It imports every service; no service imports it."""
