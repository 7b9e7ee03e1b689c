"""Client connections and listening sockets, and the drain of clients before the gateway stops or after another one came. It
imports `handlers`."""
