"""The exchange of one client that authenticates: what it is answered, and that it learns nothing about users."""

import hashlib
import re
from collections import Counter
from hmac import compare_digest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient
from scramp.core import Gs2Header

from libs.cluster import keys
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredentials
from libs.wire.errors import ErrorCode
from services.gateway.core.authentication import (
    MECHANISMS,
    OAUTHBEARER,
    OF_ANOTHER_USER,
    PASSWORD_BYTES_MAX,
    PLAIN,
    Accepted,
    Challenged,
    Denied,
    Login,
    Outcome,
    PasswordCheck,
    Refused,
    SaslExchange,
    State,
    TokenCheck,
)
from services.gateway.core.bearer_token import Bearer, InvalidToken, ValidToken
from tests.gateway.sasl_users import SECRET, known, put

SCRAM = [SCRAM_SHA_256, SCRAM_SHA_512]
VAGUE = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
WRONG = "Authentication failed: Invalid username or password"


def exchange(mechanism: str, credentials: ScramCredentials) -> SaslExchange:
    made = SaslExchange(MECHANISMS, credentials, lambda: "nonce-of-the-gateway")
    assert made.handshake(mechanism) is ErrorCode.NONE
    return made


def client(mechanism: str, user: str = "u", password: str = SECRET) -> ScramClient:
    return ScramClient([mechanism], user, password)


def token(outcome: Outcome) -> str:
    assert isinstance(outcome, Accepted)
    return outcome.token.decode()


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_user_of_scram_authenticates_and_the_gateway_proves_that_it_knows_the_keys(mechanism: str) -> None:
    server, asking = exchange(mechanism, known(u=mechanism)), client(mechanism)
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    last = server.take(asking.get_client_final().encode())
    asking.set_server_final(token(last))
    assert isinstance(last, Accepted)
    assert (last.user, server.state) == ("u", State.DONE)


@pytest.mark.parametrize("user", ["a,b", "a=b", "=2C", "用户", "a b"])
def test_a_name_may_hold_what_scram_escapes(user: str) -> None:
    credentials = known()
    put(credentials, user, SCRAM_SHA_256)
    server, asking = exchange(SCRAM_SHA_256, credentials), client(SCRAM_SHA_256, user)
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    last = server.take(asking.get_client_final().encode())
    assert isinstance(last, Accepted)
    assert last.user == user


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("user", ["u", "nobody", "of-another-mechanism"])
@pytest.mark.parametrize("iterations", [4096, 8192])
def test_wrong_password_and_unknown_user_look_the_same(mechanism: str, user: str, iterations: int) -> None:
    other = SCRAM[mechanism == SCRAM_SHA_256]
    credentials = known()
    put(credentials, "u", mechanism, iterations)
    put(credentials, "of-another-mechanism", other, 12_288 - iterations)
    server, asking = exchange(mechanism, credentials), client(mechanism, user, "wrong")
    first = token(server.take(asking.get_client_first().encode()))
    assert re.fullmatch(rf"r=[^,]+nonce-of-the-gateway,s=[A-Za-z0-9+/]+=*,i={iterations}", first)
    asking.set_server_first(first)
    last = server.take(asking.get_client_final().encode())
    assert last == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, VAGUE + mechanism)
    assert server.state is State.FAILED


def test_a_name_that_saslprep_would_change_lets_nobody_in_as_somebody_else() -> None:
    server, asking = exchange(SCRAM_SHA_256, known(IX=SCRAM_SHA_256)), client(SCRAM_SHA_256, "IX")
    first = asking.get_client_first().replace("n=IX", "n=I\u00adX")
    asking.set_server_first(token(server.take(first.encode())))
    assert isinstance(server.take(asking.get_client_final().encode()), Denied)


@pytest.mark.parametrize("user", ["u", "nobody"])
def test_names_that_saslprep_makes_one_do_not_tell_whether_it_is_a_user(user: str) -> None:
    credentials = known(u=SCRAM_SHA_256)
    firsts = [
        token(exchange(SCRAM_SHA_256, credentials).take(f"n,,n={name},r=abc".encode()))
        for name in (user, f"{user}\u00ad", f"{user}\u200b")
    ]
    assert len(set(firsts)) == 3


@pytest.mark.parametrize(("password", "is_let_in"), [(SECRET, True), ("wrong", False)])
def test_a_client_whose_nonce_stands_there_twice_is_let_in_as_by_kafka(password: str, is_let_in: bool) -> None:
    """librdkafka before 2.6, such as Debian's kcat."""
    server, asking = exchange(SCRAM_SHA_256, known(u=SCRAM_SHA_256)), client(SCRAM_SHA_256, password=password)
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    asking.nonce = type(asking.nonce)(f"{asking.c_nonce}{asking.nonce}")
    assert isinstance(server.take(asking.get_client_final().encode()), Accepted) is is_let_in


def test_a_nonce_that_does_not_end_with_that_of_the_gateway_is_denied() -> None:
    server, asking = exchange(SCRAM_SHA_256, known(u=SCRAM_SHA_256)), client(SCRAM_SHA_256)
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    asking.nonce = type(asking.nonce)(f"{asking.nonce}x")
    assert isinstance(server.take(asking.get_client_final().encode()), Denied)


def test_a_proof_for_another_nonce_is_denied() -> None:
    credentials = known(u=SCRAM_SHA_256)
    replayed = client(SCRAM_SHA_256)
    recorded = exchange(SCRAM_SHA_256, credentials)
    replayed.set_server_first(token(recorded.take(replayed.get_client_first().encode())))
    final = replayed.get_client_final().encode()
    assert isinstance(recorded.take(final), Accepted)
    server = SaslExchange(MECHANISMS, credentials, lambda: "another-nonce")
    server.handshake(SCRAM_SHA_256)
    server.take(client(SCRAM_SHA_256).get_client_first().encode())
    assert isinstance(server.take(final), Denied)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=u",
        b"n,,r=nonce,n=u",
        b"n,,n=,r=nonce",
        b"n,,n=a=b,r=nonce",
        b"n,,m=x,n=u,r=nonce",
        b"y,a=somebody,n=u",
        b"y,,n=u,r=nonce",
        b"y,a=u,n=u,r=nonce",
        b"Y,,n=u,r=nonce",
        b",,n=u,r=nonce",
        b"p=tls-unique,,n=u,r=nonce",
        b"p=tls-exporter,,n=u,r=nonce",
        b"n,,n=u,r=",
        b"n,,n=u,r=\x00",
        b"\0u\0password",
        b"n" * 16_000,
    ],
)
def test_a_malformed_first_token_is_denied(first: bytes) -> None:
    server = exchange(SCRAM_SHA_256, known(u=SCRAM_SHA_256))
    assert isinstance(server.take(first), Denied)
    assert server.state is State.FAILED


@pytest.mark.parametrize("mechanism", SCRAM)
def test_cve_2017_12610_scram_lets_nobody_in_under_an_authorization_id(mechanism: str) -> None:
    server, asking = exchange(mechanism, known(u=mechanism, other=mechanism)), client(mechanism)
    first = asking.get_client_first()
    assert first.startswith("n,,n=u,")
    denied = server.take(first.replace("n,,", "n,a=other,", 1).encode())
    assert denied == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, OF_ANOTHER_USER)
    assert server.state is State.FAILED
    unknown = exchange(mechanism, known(other=mechanism)).take(first.replace("n,,", "n,a=other,", 1).encode())
    assert unknown == denied, "nobody learns who exists"


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("repeated", "is_let_in"), [(True, True), (False, False)])
def test_scram_takes_an_authorization_id_that_is_the_users_own_name(mechanism: str, repeated: bool, is_let_in: bool) -> None:
    """The last token repeats the header, so that nobody on the way has changed it."""
    header = "n,a=u,"
    server, asking = exchange(mechanism, known(u=mechanism)), client(mechanism)
    bare = asking.get_client_first().removeprefix("n,,")
    asking.gs2_header = WithId(header if repeated else "n,,")
    asking.set_server_first(token(server.take(f"{header}{bare}".encode())))
    last = server.take(asking.get_client_final().encode())
    assert isinstance(last, Accepted) is is_let_in
    if isinstance(last, Accepted):
        asking.set_server_final(last.token.decode())
        assert last.user == "u"


class WithId(Gs2Header):  # type: ignore[misc]
    """The header of a client that names whom it acts as."""

    def __init__(self, text: str) -> None:
        super().__init__(text[0], None)
        self._text = text

    def __str__(self) -> str:
        return self._text


@pytest.mark.parametrize("final", [b"", b"c=biws", b"c=biws,r=x,p=!!", b"c=biws,r=x,p=AAAA", b"\xff", b"e=other-error"])
def test_a_malformed_last_token_is_denied(final: bytes) -> None:
    server = exchange(SCRAM_SHA_256, known(u=SCRAM_SHA_256))
    server.take(client(SCRAM_SHA_256).get_client_first().encode())
    assert isinstance(server.take(final), Denied)


TOKENS = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from([*"npycmarsiev=,!\0", "n,,", "n=u", "r=x", "c=biws", "p=AAAA", "=2C", "a=u", "é"]), max_size=12).map(
        lambda parts: "".join(parts).encode()
    ),
)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(TOKENS, TOKENS)
def test_whatever_a_client_sends_is_an_answer_or_a_denial_and_never_lets_it_in(mechanism: str, one: bytes, two: bytes) -> None:
    server = exchange(mechanism, known(u=SCRAM_SHA_256))
    for sent in (one, two):
        if server.state in (State.CHOSEN, State.ASKED):
            outcome = server.take(sent)
            assert not isinstance(outcome, Accepted) or not outcome.user
    assert server.state is not State.DONE


def plain(text: str, credentials: ScramCredentials) -> Accepted | Denied:
    server = exchange(PLAIN, credentials)
    outcome = server.take(text.encode())
    if isinstance(outcome, PasswordCheck):
        assert repr(outcome) == "PasswordCheck([hidden])"
        return server.checked(outcome.user, holds=outcome.holds())
    assert isinstance(outcome, Accepted | Denied)
    return outcome


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("acting_as", ["", "u"])
def test_plain_checks_against_either_credential(mechanism: str, acting_as: str) -> None:
    assert plain(f"{acting_as}\0u\0{SECRET}", known(u=mechanism)) == Accepted(b"", "u")


@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAM])
def test_passwords_are_compared_in_constant_time(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return compare_digest(one, other)

    monkeypatch.setattr("hmac.compare_digest", compare)
    monkeypatch.setattr("scramp.core.compare_digest", compare)
    credentials = known(u=SCRAM_SHA_256 if mechanism == PLAIN else mechanism)
    if mechanism == PLAIN:
        assert isinstance(plain("\0u\0wrong", credentials), Denied)
    else:
        server, asking = exchange(mechanism, credentials), client(mechanism, "u", "wrong")
        asking.set_server_first(token(server.take(asking.get_client_first().encode())))
        assert isinstance(server.take(asking.get_client_final().encode()), Denied)
    assert max(compared) >= 32, "the keys, and not only a header"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\0u\0wrong", WRONG),
        (f"\0nobody\0{SECRET}", WRONG),
        ("\0u\0" + "x" * (PASSWORD_BYTES_MAX + 1), WRONG),
        (f"other\0u\0{SECRET}", "Authentication failed: Client requested an authorization id that is different from username"),
        (f"\0\0{SECRET}", "Authentication failed: username not specified"),
        ("\0u\0", "Authentication failed: password not specified"),
        ("u", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("\0u\0p\0q", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_is_denied_in_kafkas_words(text: str, message: str) -> None:
    assert plain(text, known(u=SCRAM_SHA_256)) == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def bearer_exchange(acting_as: str = "", before: Login | None = None) -> tuple[SaslExchange, Bearer]:
    server = SaslExchange(MECHANISMS, known(), lambda: "nonce", before)
    assert server.handshake(OAUTHBEARER) is ErrorCode.NONE
    outcome = server.take(f"n,{acting_as},\x01auth=Bearer a.b.c\x01\x01".encode())
    assert isinstance(outcome, TokenCheck)
    assert (outcome.bearer.token, "a.b.c" in repr(outcome)) == ("a.b.c", False)
    return server, outcome.bearer


@pytest.mark.parametrize("acting_as", ["", "a=u"])
def test_a_valid_token_names_its_user_and_when_it_expires(acting_as: str) -> None:
    server, bearer = bearer_exchange(acting_as)
    assert server.token_checked(bearer, ValidToken("u", 7.0)) == Accepted(b"", "u", 7.0)
    assert server.state is State.DONE


@pytest.mark.parametrize("answer", [b"\x01", b"", b"n,,\x01auth=Bearer a.b.c\x01\x01"])
def test_an_invalid_token_hears_an_error_and_is_denied_whatever_its_client_answers(answer: bytes) -> None:
    server, bearer = bearer_exchange()
    assert server.token_checked(bearer, InvalidToken("expired")) == Challenged(b'{"status":"invalid_token"}')
    denied = server.take(answer)
    assert isinstance(denied, Denied)
    assert (denied.error, denied.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}')
    assert (denied.reason, server.state) == ("invalid token: expired", State.FAILED)


def test_a_token_of_another_user_than_its_client_wants_to_be_is_denied_in_kafkas_words() -> None:
    server, bearer = bearer_exchange("a=v")
    denied = server.token_checked(bearer, ValidToken("u", 7.0))
    assert isinstance(denied, Denied)
    text = "Client requested an authorization id (v) that is different from the token's principal name (u)"
    assert denied.message == f"Authentication failed: {text}"


def test_a_token_of_another_user_than_before_is_denied() -> None:
    server, bearer = bearer_exchange(before=Login(OAUTHBEARER, "v"))
    assert isinstance(server.token_checked(bearer, ValidToken("u", 7.0)), Denied)


def again(mechanism: str, credentials: ScramCredentials, before: Login) -> SaslExchange:
    made = SaslExchange(MECHANISMS, credentials, lambda: "nonce-of-the-gateway", before)
    assert made.handshake(mechanism) is ErrorCode.NONE
    return made


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("user", "is_let_in"), [("u", True), ("v", False)])
def test_a_client_authenticates_again_as_the_same_user_only(mechanism: str, user: str, is_let_in: bool) -> None:
    server, asking = again(mechanism, known(u=mechanism, v=mechanism), Login(mechanism, "u")), client(mechanism, user)
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    last = server.take(asking.get_client_final().encode())
    if is_let_in:
        assert isinstance(last, Accepted)
    else:
        message = "Cannot change principals during re-authentication from User.u: User.v"
        assert last == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, message, "another user than before")
    assert server.state is (State.DONE if is_let_in else State.FAILED)


def test_a_wrong_password_is_denied_before_another_user_shows() -> None:
    server, asking = again(SCRAM_SHA_256, known(v=SCRAM_SHA_256), Login(SCRAM_SHA_256, "u")), client(SCRAM_SHA_256, "v", "wrong")
    asking.set_server_first(token(server.take(asking.get_client_first().encode())))
    message = VAGUE.replace("during authentication", "during re-authentication") + SCRAM_SHA_256
    assert server.take(asking.get_client_final().encode()) == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def test_another_mechanism_than_before_is_refused_at_its_first_token() -> None:
    server = again(PLAIN, known(u=SCRAM_SHA_256), Login(SCRAM_SHA_256, "u"))
    assert server.take(f"\0u\0{SECRET}".encode()) == Refused("re-authentication by PLAIN after SCRAM-SHA-256")
    assert server.state is State.FAILED


def test_a_second_handshake_is_out_of_order() -> None:
    server = exchange(PLAIN, known())
    assert server.handshake(PLAIN) is ErrorCode.ILLEGAL_SASL_STATE
    assert server.state is State.FAILED


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "", "plain", PLAIN])
def test_a_mechanism_that_is_not_enabled_is_refused(mechanism: str) -> None:
    server = SaslExchange(SCRAM, known(), lambda: "nonce")
    assert server.handshake(mechanism) is ErrorCode.UNSUPPORTED_SASL_MECHANISM


@pytest.mark.parametrize("mechanism", [*SCRAM, PLAIN, OAUTHBEARER])
def test_nobody_authenticates_as_the_user_of_those_who_have_not(mechanism: str) -> None:
    """An ACL or a super user of that name is for clients that nobody asked who they are."""
    credentials = known()
    put(credentials, "ANONYMOUS", SCRAM_SHA_256)
    put(credentials, "ANONYMOUS", SCRAM_SHA_512)
    server = exchange(mechanism, credentials)
    last: Outcome
    if mechanism == PLAIN:
        server.take(f"\0ANONYMOUS\0{SECRET}".encode())
        last = server.checked("ANONYMOUS", holds=True)
    elif mechanism == OAUTHBEARER:
        server.take(b"n,,\x01auth=Bearer abc\x01\x01")
        last = server.token_checked(Bearer("abc", ""), ValidToken("ANONYMOUS", 1e9))
    else:
        asking = client(mechanism, "ANONYMOUS")
        asking.set_server_first(token(server.take(asking.get_client_first().encode())))
        last = server.take(asking.get_client_final().encode())
    reason = "ANONYMOUS is the name of clients that have not authenticated"
    assert last == Denied(ErrorCode.SASL_AUTHENTICATION_FAILED, VAGUE + mechanism, reason)
    assert server.state is State.FAILED


@pytest.mark.parametrize("of_cluster", [[SCRAM_SHA_256], [SCRAM_SHA_512], SCRAM, []])
def test_a_password_of_plain_costs_the_same_whoever_its_user_is(of_cluster: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock shows nothing but these iterations."""
    credentials = known()
    for mechanism in of_cluster:
        put(credentials, f"of-{mechanism}", mechanism)
        put(credentials, "of-all", mechanism)
        put(credentials, f"many-{mechanism}", mechanism, 8192)
    work: Counter[str] = Counter()
    real = hashlib.pbkdf2_hmac

    def counted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        work[name] += iterations
        return real(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    seen = set()
    for user in ["nobody", *credentials.users]:
        for password, fits in ((SECRET, user != "nobody"), ("wrong", False)):
            check = exchange(PLAIN, credentials).take(f"\0{user}\0{password}".encode())
            assert isinstance(check, PasswordCheck)
            work.clear()
            assert check.holds() is fits
            seen.add(tuple(sorted(work.items())))
    assert len(seen) == 1
    hashes = {name for name, _ in next(iter(seen))}
    assert hashes == {each.removeprefix("SCRAM-").lower().replace("-", "") for each in of_cluster or [SCRAM_SHA_256]}


def test_the_costliest_credential_is_forgotten_with_its_user() -> None:
    credentials = known(u=SCRAM_SHA_256)
    put(credentials, "many", SCRAM_SHA_256, 8192)
    assert credentials.iterations_max(SCRAM_SHA_256) == 8192
    credentials.remove(keys.scram_credential(SCRAM_SHA_256, "many"))
    assert (credentials.iterations_max(SCRAM_SHA_256), credentials.iterations_max(SCRAM_SHA_512)) == (4096, 0)
