"""How a client connects: TLS, SASL, and where its password is. No password is in it: each connection reads it anew."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class SecurityProblem(Exception):
    """The client cannot connect as it is told to, or the cluster denies it. Trying again does not help."""


@dataclass(frozen=True)
class Security:
    """`password_file` or `password_variable` has the password of SASL. Certificates are PEM files.

    `certificate_file` has the client's key, which is not encrypted, and its certificate. Without `ca_file`, the system's
    authorities count.
    """

    protocol: str = PLAINTEXT
    mechanism: str | None = None
    user: str | None = None
    password_file: str | None = None
    password_variable: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def password(self) -> str:
        """Raises SecurityProblem, which names the place and not what is there."""
        if self.password_variable is not None:
            if self.password_variable not in os.environ:
                raise SecurityProblem(f"the environment has no variable {self.password_variable}")
            return os.environ[self.password_variable]
        assert self.password_file is not None
        try:
            return Path(self.password_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SecurityProblem(f"the file {self.password_file} cannot be read: {reason}") from None

    def context(self) -> ssl.SSLContext:
        """Raises SecurityProblem."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, password=_no_password)
            return context
        except (OSError, ValueError) as error:
            files = " and ".join(each for each in (self.ca_file, self.certificate_file) if each is not None)
            raise SecurityProblem(f"the certificates of {files} cannot be used: {error}") from None


def _no_password() -> str:
    """OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")


NO_SECURITY: Final = Security()
