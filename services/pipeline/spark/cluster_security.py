"""The `[cluster.security]` table, in the words of Java's clients and of librdkafka. It needs no PySpark.

Spark's options hold no password: Kafka's own config providers read it, in the driver and in each executor.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from libs.client.security import MECHANISMS, PLAINTEXT, PROTOCOLS, Security, SecurityProblem

PROVIDER = "password"
_PROVIDERS = "org.apache.kafka.common.config.provider"
_MODULES = "org.apache.kafka.common.security"
NOT_QUOTABLE = frozenset('"\\\n\r$')
"""Java's clients read the password within quotes."""
NOT_IN_PATHS = frozenset(":{}")
"""A reference of Kafka's config providers has them between its parts."""


def security_problem(security: Security) -> tuple[str, str] | None:
    """The key that is wrong, and why. It looks at the files."""
    if security.protocol not in PROTOCOLS:
        return "protocol", f"{security.protocol!r} is none of {', '.join(PROTOCOLS)}"
    of_sasl = ("mechanism", "user", "password_file", "password_variable")
    for names, has, protocols in (
        (of_sasl, security.has_sasl, "SASL_PLAINTEXT and SASL_SSL"),
        (("ca_file", "certificate_file"), security.has_tls, "SSL and SASL_SSL"),
    ):
        needless = next((name for name in names if getattr(security, name) is not None), None)
        if needless is not None and not has:
            return needless, f"it is for {protocols}, and protocol is {security.protocol}"
    return (_sasl_problem(security) if security.has_sasl else None) or (_tls_problem(security) if security.has_tls else None)


def _sasl_problem(security: Security) -> tuple[str, str] | None:
    if security.mechanism is None:
        return "mechanism", f"it is missing; it is {', '.join(MECHANISMS)}"
    if security.mechanism not in MECHANISMS:
        return "mechanism", f"{security.mechanism!r} is none of {', '.join(MECHANISMS)}"
    if security.user is None:
        return "user", "it is missing"
    if not NOT_QUOTABLE.isdisjoint(security.user):
        return "user", "it may have no quotes, backslashes, dollar signs and line ends"
    if (security.password_file is None) == (security.password_variable is None):
        return "password_file", "exactly one of password_file and password_variable is needed"
    key = "password_variable" if security.password_file is None else "password_file"
    if security.password_file is not None and not NOT_IN_PATHS.isdisjoint(security.password_file):
        return key, f"{security.password_file!r} may have none of {' '.join(sorted(NOT_IN_PATHS))}"
    try:
        password = security.password()
    except SecurityProblem as error:
        return key, str(error)
    if not password:
        return key, "the password is empty"
    if not NOT_QUOTABLE.isdisjoint(password):
        return key, "the password may have no quotes, backslashes, dollar signs and line ends, not even at its end"
    return None


def _tls_problem(security: Security) -> tuple[str, str] | None:
    try:
        security.context()
    except SecurityProblem as error:
        return "ca_file" if security.certificate_file is None else "certificate_file", str(error)
    return None


def java_properties(security: Security) -> dict[str, str]:
    if security.protocol == PLAINTEXT:
        return {}
    properties = {"security.protocol": security.protocol}
    if security.ca_file is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": _absolute(security.ca_file)}
    if security.certificate_file is not None:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": _absolute(security.certificate_file)}
    if not security.has_sasl:
        return properties
    assert security.mechanism is not None
    module = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
    if security.password_file is not None:
        file = Path(_absolute(security.password_file))
        provider, password = "DirectoryConfigProvider", f"{file.parent}:{file.name}"
    else:
        provider, password = "EnvVarConfigProvider", str(security.password_variable)
    login = f'username="{security.user}" password="${{{PROVIDER}:{password}}}";'
    return {
        **properties,
        "sasl.mechanism": security.mechanism,
        "sasl.jaas.config": f"{_MODULES}.{module}LoginModule required {login}",
        "config.providers": PROVIDER,
        f"config.providers.{PROVIDER}.class": f"{_PROVIDERS}.{provider}",
    }


def librdkafka_properties(security: Security) -> dict[str, str]:
    """With the password: never log them. Raises SecurityProblem."""
    if security.protocol == PLAINTEXT:
        return {}
    properties: dict[str, str | None] = {
        "security.protocol": security.protocol,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.certificate_file,
    }
    if security.has_sasl:
        login = {"sasl.username": security.user, "sasl.password": security.password()}
        properties |= {"sasl.mechanism": security.mechanism, **login}
    return {name: value for name, value in properties.items() if value is not None}


def read_security(value_of: Callable[[str], str | None]) -> Security:
    """`value_of` gives the value of each field, or None."""
    given = {name: value_of(name) for name in Security.__dataclass_fields__}
    return Security(**{name: value for name, value in given.items() if value is not None})


def sink_options_of(security: Security, names: Mapping[str, str]) -> dict[str, str]:
    """`names`: the option of each field."""
    return {option: value for name, option in names.items() if (value := getattr(security, name)) not in (None, PLAINTEXT)}


def _absolute(path: str) -> str:
    return str(Path(path).absolute())
