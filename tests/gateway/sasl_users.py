"""Users with the password `SECRET`, and their credentials."""

from scramp import ScramMechanism

from libs.cluster import keys
from libs.cluster.scram_credentials import ScramCredential, ScramCredentials, encoded
from libs.cluster.store import KeyValue

SECRET = "the user's own secret"
SALT = b"a salt of sixteen"


def credential(mechanism: str, password: str = SECRET, iterations: int = 4096) -> ScramCredential:
    salt, stored_key, server_key, _ = ScramMechanism(mechanism).make_auth_info(password, iterations, SALT)
    return ScramCredential(salt, stored_key, server_key, iterations)


def known(**users: str) -> ScramCredentials:
    """`users` by their mechanism."""
    credentials = ScramCredentials(b"secret of the cluster")
    for user, mechanism in users.items():
        put(credentials, user, mechanism)
    return credentials


def put(credentials: ScramCredentials, user: str, mechanism: str, iterations: int = 4096) -> None:
    value = encoded(credential(mechanism, iterations=iterations))
    credentials.take(KeyValue(keys.scram_credential(mechanism, user), value, 1, 1, 0))
