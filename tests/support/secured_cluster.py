"""A cluster on which nothing is allowed that docs/security.md does not print: TLS, each mechanism of SASL, certificates, ACLs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.brokers import GROUPS, set_for_all
from tests.support.certificates import Authority
from tests.support.cluster_harness import LocalCluster
from tests.support.ports import reserve_ports
from tests.support.printed_acls import SECTION, printed_acls, run_printed

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512, "PLAIN", OAUTHBEARER)
USERS = (
    *("producer", "consumer", "accountant", "topics-admin", "groups-admin", "users-admin", "connect", "word-count"),
    *("lake", "totals-job", "stranger"),
)
KEY_PASSWORD = "password-of-the-servers-key"
READ_BY_JAVA_17 = ("-v1", "PBE-SHA1-3DES")
"""It does not read openssl's own way of encrypting a key, PBES2."""
LOGIN_MODULES = "org.apache.kafka.common.security"


@dataclass
class SecuredCluster:
    """Its users are USERS, by passwords, tokens and certificates alike. Its plaintext listener is the administrator's."""

    cluster: LocalCluster
    authority: Authority
    sasl_bootstrap: str
    ssl_bootstrap: str
    admin: Admin
    secrets: list[str] = field(default_factory=list)

    @property
    def ca(self) -> str:
        return str(self.authority.certificate)

    def token(self, user: str) -> str:
        from tests.gateway.token_issuer import claims, token

        made = token(claims(sub=user))
        self.secrets.append(made.rpartition(".")[2])  # claims are no secret
        return made

    def keystore(self, user: str, password: str = "") -> Path:
        """The key and certificate of a client."""
        keystore = self.authority.directory / f"{user}{'-encrypted' if password else ''}.pem"
        if not keystore.exists():
            subject = f"/O=Example/CN={user}"
            self.authority.sign(keystore.stem, subject, names="", password=password, encryption=READ_BY_JAVA_17)
            self.secrets.append(keystore.read_text(encoding="utf-8").splitlines()[1])
        return keystore

    def librdkafka(self, user: str) -> dict[str, str]:
        login = {"sasl.mechanism": SCRAM_SHA_256, "sasl.username": user, "sasl.password": password_of(user)}
        return {"bootstrap.servers": self.sasl_bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": self.ca, **login}

    def librdkafka_with_certificate(self, user: str) -> dict[str, str]:
        keystore = str(self.keystore(user))
        shown = {"ssl.ca.location": self.ca, "ssl.certificate.location": keystore, "ssl.key.location": keystore}
        return {"bootstrap.servers": self.ssl_bootstrap, "security.protocol": "SSL", **shown}

    def java(self, user: str) -> dict[str, str]:
        """Without the bootstrap servers."""
        jaas = f'{LOGIN_MODULES}.scram.ScramLoginModule required username="{user}" password="{password_of(user)}";'
        login = {"sasl.mechanism": SCRAM_SHA_512, "sasl.jaas.config": jaas}
        return {"security.protocol": "SASL_SSL", **self._truststore(), **login}

    def java_with_certificate(self, user: str) -> dict[str, str]:
        """Its key is encrypted."""
        password = f"password-of-the-key-of-{user}"
        self.secrets.append(password)
        shown = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(user, password)),
            "ssl.key.password": password,
        }
        return {"security.protocol": "SSL", **self._truststore(), **shown}

    def _truststore(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}

    def denials(self, user: str) -> list[str]:
        """What the gateway has logged of a user who was denied something."""
        lines = self.cluster.log("gateway-1").splitlines()
        return [line for line in lines if "request denied" in line and f"User:{user} " in f"{line} "]


def password_of(user: str) -> str:
    return f"pass-phrase-of-{user}"


def write_properties(file: Path, settings: Mapping[str, object]) -> str:
    """Of Java. Returns the path."""
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return str(file)


def _tokens(keys: Path) -> dict[str, str]:
    from tests.gateway.token_issuer import AUDIENCE, ISSUER, key_set, public_jwk

    keys.write_bytes(key_set(public_jwk("RSA", "k")))
    return {
        "PENSTOCK_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": f"file://{keys}",
        "PENSTOCK_SASL_OAUTHBEARER_EXPECTED_ISSUER": ISSUER,
        "PENSTOCK_SASL_OAUTHBEARER_EXPECTED_AUDIENCE": AUDIENCE,
    }


@contextmanager
def secured_cluster(
    authority: Authority, directory: Path, *, acls: str = SECTION, with_tokens: bool = True
) -> Iterator[SecuredCluster]:
    """Each user has the ACLs that the page prints for it below the heading `acls`.

    Tokens need `cryptography`, which the pipeline's environment lacks.
    """
    server = authority.sign("secured", "/O=Penstock/CN=server", password=KEY_PASSWORD)
    password, users = directory / "key-password", directory / "users"
    password.write_text(KEY_PASSWORD, encoding="utf-8")
    lines = [
        f"{mechanism}=[name={user},password={password_of(user)}]"
        for user in USERS
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
    ]
    users.write_text("\n".join(lines), encoding="utf-8")
    ports, ssl_ports = reserve_ports(10), reserve_ports(10)
    gateway = {
        "PENSTOCK_SASL_LISTENER": f"SASL_SSL://127.0.0.1:{ports.first}",
        "PENSTOCK_SASL_ENABLED_MECHANISMS": ",".join(MECHANISMS if with_tokens else MECHANISMS[:-1]),
        **(_tokens(directory / "keys.json") if with_tokens else {}),
        "PENSTOCK_SSL_LISTENER": f"SSL://127.0.0.1:{ssl_ports.first}",
        "PENSTOCK_SSL_KEYSTORE_LOCATION": str(server),
        "PENSTOCK_SSL_KEY_PASSWORD_FILE": str(password),
        "PENSTOCK_SSL_CLIENT_AUTH": "required",
        "PENSTOCK_SSL_TRUSTSTORE_LOCATION": str(authority.certificate),
        "PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES": "RULE:^CN=([^,]*),O=Example$/$1/",
        "PENSTOCK_AUTHORIZER": "StandardAuthorizer",
        "PENSTOCK_SUPER_USERS": "User:ANONYMOUS",
        "PENSTOCK_FAILED_AUTHENTICATION_DELAY_MS": "10",
        "PENSTOCK_LOG_LEVEL": "trace",
    }
    controller = {"PENSTOCK_ADD_SCRAM_FILE": str(users), "PENSTOCK_LOG_LEVEL": "trace"}
    with LocalCluster(environment_of={"gateway-1": gateway, "controller-1": controller}) as cluster:
        admin = Admin(cluster.bootstrap)
        made = SecuredCluster(cluster, authority, f"127.0.0.1:{ports.first}", f"127.0.0.1:{ssl_ports.first}", admin)
        made.secrets += [KEY_PASSWORD, server.read_text(encoding="utf-8").splitlines()[1], *map(password_of, USERS)]
        for topic in ("orders", "totals", "lines", "counts"):
            admin.create(topic, config={"retention.ms": "-1"})
        set_for_all(cluster.bootstrap, GROUPS)
        run_printed(cluster.bootstrap, printed_acls(acls))
        yield made
        admin.close()
    ports.release()
    ssl_ports.release()
