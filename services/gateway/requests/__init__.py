"""How a request begins: the gate that every request passes, and the task of one whose handler waits. It imports `handlers`."""
