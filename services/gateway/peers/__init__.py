"""The processes that a gateway talks to: storage nodes, controller, coordinators and other gateways. Also its knowledge of their
files and addresses. It imports `exchange` and `core`."""
