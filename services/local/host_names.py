"""What a host may be called in the options of the launcher."""

import re
from typing import Final

NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A name or an IPv4 address, without a port."""
ANY: Final = "0.0.0.0"
"""Every address of this machine, at which processes listen. Nobody can connect to it."""
