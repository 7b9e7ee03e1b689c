"""The port for streams, and the real ones: TCP and Unix sockets without asyncio's transports. The gateway's client connections
use it too. It imports `files`."""
