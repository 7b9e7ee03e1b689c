"""Principals of certificates: names as Java writes them, and the cases of Kafka's SslPrincipalMapperTest."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.der import Malformed
from services.gateway.core.distinguished_name import subject_name
from services.gateway.core.principal_mapping import NoRuleFits, PrincipalMapping, WrongRule, _split
from tests.compat.kafka.archives import BRIEF
from tests.support.certificates import Authority

SUBJECTS = [
    "/C=US/ST=MD/L=Fulton/O=mycp/OU=SME/CN=Duke",
    "/DC=com/DC=example/UID=u1/CN=Tkac, Adam",
    r"/O=a\+b/CN=#1\, <x>;=\"q\"",
    "/CN= lead and trail ",
    "/CN=Grüße 漢字 😀",
    "/O=Example/CN=one+OU=two",
    "/O=Example/emailAddress=a@example.com/CN=mail",
    "/street=Main Street 1/serialNumber=7/title=Dr/CN=rare",
]
NAMES_OF_JAVA = """
import java.io.*; import java.security.cert.*;
public class Names { public static void main(String[] files) throws Exception {
  PrintStream out = new PrintStream(System.out, true, "UTF-8");
  for (String file : files) try (InputStream in = new FileInputStream(file)) {
    Certificate read = CertificateFactory.getInstance("X.509").generateCertificate(in);
    out.println(((X509Certificate) read).getSubjectX500Principal().getName());
  } } }
"""


def der_of(keystore: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(keystore.with_suffix(".crt").read_text(encoding="utf-8"))


def test_a_name_is_written_as_in_rfc_2253(authority: Authority) -> None:
    def name(subject: str) -> str:
        return subject_name(der_of(authority.sign("named", subject)))

    assert name(SUBJECTS[0]) == "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"
    assert name(SUBJECTS[1]) == r"CN=Tkac\, Adam,UID=u1,DC=example,DC=com"
    assert name(SUBJECTS[3]) == r"CN=\ lead and trail\ "
    assert name(SUBJECTS[6]) == "CN=mail,1.2.840.113549.1.9.1=#160d61406578616d706c652e636f6d,O=Example"


def test_names_are_those_that_java_prints(authority: Authority, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("no JDK")
    signed = [authority.sign(f"java-{number}", subject) for number, subject in enumerate(SUBJECTS)]
    source = tmp_path / "Names.java"
    source.write_text(NAMES_OF_JAVA, encoding="utf-8")
    argv = ["java", *BRIEF, str(source), *(str(keystore.with_suffix(".crt")) for keystore in signed)]
    printed = subprocess.run(argv, capture_output=True, encoding="utf-8", check=True).stdout.splitlines()
    assert [subject_name(der_of(keystore)) for keystore in signed] == printed


@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        subject_name(data)


def test_a_certificate_that_is_cut_off_is_malformed(authority: Authority) -> None:
    whole = der_of(authority.sign("cut", SUBJECTS[0]))
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            subject_name(whole[:length])


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_rules_of_kafka_are_valid(rules: str) -> None:
    PrincipalMapping(rules)


@pytest.mark.parametrize(
    "rules",
    [
        "",
        " , ,, ",
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(?=CN)/$1/",
        "RULE:(a)\\1/$1/",
        "RULE:CN=.*/$1/",
        "RULE:CN=(.*)/$/",
        "RULE:CN=(.*)/${name}/",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(WrongRule):
        PrincipalMapping(rules)


MANY = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        (MANY, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (MANY, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (MANY, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (MANY, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (MANY, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("RULE:^CN=(.*?),(.*)$/$1-$3-$12-\\$1/", "CN=a,O=b", "a-$3-a2-$1"),
    ],
)
def test_the_first_rule_that_fits_maps_a_name(rules: str, name: str, mapped: str) -> None:
    assert PrincipalMapping(rules).name_of(name) == mapped


def test_a_name_that_no_rule_fits_is_nobody() -> None:
    with pytest.raises(NoRuleFits, match="no rule of PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES fits O=x"):
        PrincipalMapping("RULE:^CN=(.*)$/$1/").name_of("O=x")


@pytest.mark.parametrize(
    ("rules", "parts"),
    [
        ("", []),
        ("DEFAULT", ["DEFAULT"]),
        ("  RULE:   /     / ,  DEFAULT  ", ["RULE:   /     /", "DEFAULT"]),
        ("  RULE:  /     /U   ,DEFAULT  ", ["RULE:  /     /U", "DEFAULT"]),
        (",   , , ,      , , ,   ", []),
        (",,RULE://,,,DEFAULT,,", ["RULE://", "DEFAULT"]),
        (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", [r"RULE:\**\/+/*/L", r"RULE:\/*\**/**/"]),
        (
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
            [r"RULE:,RULE:,/,RULE:,\//U", "RULE:,/RULE:,/", "RULE:,RULE:,/L,RULE:,/L", "RULE:, DEFAULT, /DEFAULT/", "DEFAULT"],
        ),
    ],
)
def test_rules_are_split_as_in_kafka(rules: str, parts: list[str]) -> None:
    assert [part for part in _split(rules) if part] == parts
