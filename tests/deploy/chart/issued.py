"""What cert-manager would make of the chart's Certificates, by an authority for tests."""

from collections.abc import Sequence

from tests.deploy.chart.rendering import Object, of_kind
from tests.support.certificates import Authority

KINDS = {"dnsNames": "DNS", "ipAddresses": "IP", "uris": "URI"}
USAGES = {"server auth": "serverAuth", "client auth": "clientAuth"}


def issued(objects: Sequence[Object], authority: Authority) -> dict[str, dict[str, bytes]]:
    """The Secrets, by name."""
    return {name: _secret(each["spec"], authority) for name, each in of_kind(objects, "Certificate").items()}


def _secret(asked: Object, authority: Authority) -> dict[str, bytes]:
    """It has the names and the usages that were asked for, and no others."""
    names = ",".join(f"{kind}:{name}" for key, kind in KINDS.items() for name in asked.get(key, []))
    usages = ",".join(USAGES[usage] for usage in asked["usages"] if usage in USAGES)
    subject = f"/CN={asked['commonName']}" if "commonName" in asked else "/O=of Kubernetes"
    signed = authority.sign(asked["secretName"], subject, names=names, usages=usages)
    files = {"tls.crt": signed.with_suffix(".crt"), "tls.key": signed.with_suffix(".key"), "ca.crt": authority.certificate}
    return {name: path.read_bytes() for name, path in files.items()}
