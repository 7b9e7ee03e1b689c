"""Client connections and listening sockets, and the drain of clients before the gateway stops. It imports `handlers`."""
