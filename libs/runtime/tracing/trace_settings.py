"""The settings of traces, from PENSTOCK_TRACE_… and OpenTelemetry's own variables. Pure.

A setting of ours counts before a variable of OpenTelemetry. Variables that are empty are unset. Those of OpenTelemetry may be
meant for other programs of the host: one that is wrong counts as unset, with a warning, as the specification has it:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.exporting.collector import ResourceSettings, shown
from libs.telemetry.tracing.sampling import SAMPLE_RATIO, SLOW_MS, TraceRules
from libs.wire.api_keys import ApiKey

OTLP, ZIPKIN, NONE = "otlp", "zipkin", "none"
EXPORTERS: Final = (OTLP, ZIPKIN, NONE)
PROTOCOL: Final = "http/protobuf"
OTLP_ENDPOINT: Final = "http://localhost:4318"
OTLP_PATH: Final = "v1/traces"
ZIPKIN_ENDPOINT: Final = "http://localhost:9411/api/v2/spans"
SLOW_MS_MAX = 3_600_000
SPANS_PER_SECOND_MAX = 100_000
RATIO_SAMPLERS: Final = ("traceidratio", "parentbased_traceidratio")
RATIO_OF: Final[Mapping[str, float]] = {
    "always_on": 1.0,
    "always_off": 0.0,
    "parentbased_always_on": 1.0,
    "parentbased_always_off": 0.0,
}
SAMPLERS: Final = (*RATIO_OF, *RATIO_SAMPLERS)
NOT_EXPORTED: Final = "nothing is exported"
PARENT_BASED: Final = "parentbased_"
SPAN_ATTRIBUTES: Final = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
"""OpenTelemetry's SDK reads it at its import, which fails if it is no whole number from 0."""
READ_AT_IMPORT: Final = (SPAN_ATTRIBUTES, "OTEL_PYTHON_CONTEXT")
"""What the SDK reads at its import, and whose wrong value it tells by a traceback. Penstock's spans depend on neither."""
APIS: Final = {key.name.replace("_", "").lower(): key for key in ApiKey}


class GivenSettings(Protocol):
    """The fields of a service's config that are about traces."""

    @property
    def trace_sample_ratio(self) -> float | None: ...

    @property
    def trace_slow_ms(self) -> Sequence[str]: ...

    @property
    def trace_spans_per_second(self) -> int: ...

    @property
    def trace_exporter(self) -> str: ...

    @property
    def trace_endpoint(self) -> str: ...


class NotHeeded(NamedTuple):
    """A variable of OpenTelemetry that has no effect, or less than it says."""

    reason: str
    """It names the variable, its value unless that may be a secret, and what was expected."""
    instead: str


class _Variables:
    """OpenTelemetry's variables. `not_heeded` grows as wrong ones are read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.not_heeded: list[NotHeeded] = []

    def get(self, variable: str) -> str:
        return self._env.get(variable, "")

    def first(self, *variables: str) -> tuple[str, str]:
        """The first that is set, and its value."""
        return next(((variable, self.get(variable)) for variable in variables if self.get(variable)), (variables[-1], ""))

    def warn(self, reason: object, instead: str) -> None:
        self.not_heeded.append(NotHeeded(str(reason), instead))


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Which requests have a trace, and where spans go."""

    rules: TraceRules = TraceRules()
    exporter: str = NONE
    endpoint: str = ""
    """The whole URL. Empty: nothing is exported."""
    resources: ResourceSettings = ResourceSettings()
    not_heeded: tuple[NotHeeded, ...] = ()


def trace_settings(given: GivenSettings, env: Mapping[str, str]) -> TraceSettings:
    """Raises ValueError for a setting of ours. It names the variable, its value and what was expected."""
    variables = _Variables(env)
    slow_ms, slow_ms_by_api = _slow_ms(given.trace_slow_ms)
    if not 0 <= given.trace_spans_per_second <= SPANS_PER_SECOND_MAX:
        raise _wrong("PENSTOCK_TRACE_SPANS_PER_SECOND", given.trace_spans_per_second, f"0 to {SPANS_PER_SECOND_MAX}")
    ratio, heeds_clients = _sampling(given.trace_sample_ratio, variables)
    exporter, endpoint = _destination(given.trace_exporter, given.trace_endpoint, variables)
    resources = _resources(variables) if exporter != NONE else ResourceSettings()
    rules = TraceRules(ratio, slow_ms, slow_ms_by_api, given.trace_spans_per_second, heeds_clients)
    return TraceSettings(rules, exporter, endpoint, resources, tuple(variables.not_heeded))


def _wrong(variable: str, value: object, expected: str) -> ValueError:
    return ValueError(f"{variable} is {value!r}; expected {expected}")


def _slow_ms(given: Sequence[str]) -> tuple[int, dict[int, int]]:
    """The threshold of all APIs, and those of single ones: `100,Fetch=500`."""
    everywhere, by_api = SLOW_MS, dict[int, int]()
    for item in given:
        api, equals, number = item.rpartition("=")
        key = APIS.get(api.strip().replace("_", "").lower())
        if not (number.strip().isdecimal() and 1 <= int(number) <= SLOW_MS_MAX) or (equals and key is None):
            raise _wrong(
                "PENSTOCK_TRACE_SLOW_MS", item, f"milliseconds from 1 to {SLOW_MS_MAX}, or API=milliseconds as in Fetch=500"
            )
        if key is None:
            everywhere = int(number)
        else:
            by_api[key] = int(number)
    return everywhere, by_api


def _sampling(given: float | None, variables: _Variables) -> tuple[float, bool]:
    """The fraction, and whether a client's sampled flag counts."""
    sampler = variables.get("OTEL_TRACES_SAMPLER")
    if sampler and sampler not in SAMPLERS:
        wrong = _wrong("OTEL_TRACES_SAMPLER", sampler, f"one of {', '.join(SAMPLERS)}")
        variables.warn(wrong, "it counts as unset")
        sampler = ""
    heeds_clients = not sampler or sampler.startswith(PARENT_BASED)
    if given is not None:
        return _fraction("PENSTOCK_TRACE_SAMPLE_RATIO", given), heeds_clients
    if sampler in RATIO_SAMPLERS:
        return _sampler_argument(variables), heeds_clients
    return RATIO_OF.get(sampler, SAMPLE_RATIO), heeds_clients


def _sampler_argument(variables: _Variables) -> float:
    argument = variables.get("OTEL_TRACES_SAMPLER_ARG") or "1.0"
    try:
        return _fraction("OTEL_TRACES_SAMPLER_ARG", float(argument))
    except ValueError:
        wrong = _wrong("OTEL_TRACES_SAMPLER_ARG", argument, "a number from 0 to 1")
        variables.warn(wrong, "the fraction is 1, as if it were unset")
        return 1.0


def _fraction(variable: str, value: float) -> float:
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise _wrong(variable, value, "a number from 0 to 1")
    return value


def _destination(given_exporter: str, given_endpoint: str, variables: _Variables) -> tuple[str, str]:
    """The exporter and its URL."""
    if given_exporter and given_exporter not in EXPORTERS:
        raise _wrong("PENSTOCK_TRACE_EXPORTER", given_exporter, f"{OTLP}, {ZIPKIN} or {NONE}")
    given_url = _url("PENSTOCK_TRACE_ENDPOINT", given_endpoint) if given_endpoint else ""
    if variables.get("OTEL_SDK_DISABLED").lower() == "true":
        return NONE, ""
    _, named = variables.first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    exporter = given_exporter or (OTLP if given_url else _standard_exporter(variables)) or (OTLP if named else NONE)
    if exporter == NONE:
        return NONE, ""
    if exporter == ZIPKIN:
        url = given_url or _standard_url(variables, "OTEL_EXPORTER_ZIPKIN_ENDPOINT", ZIPKIN_ENDPOINT)
    else:
        url = _otlp_endpoint(given_url, variables)
    return (exporter, url) if url else (NONE, "")


def _standard_exporter(variables: _Variables) -> str:
    """The first of a list that is one of ours. Empty: none is."""
    text = variables.get("OTEL_TRACES_EXPORTER")
    names = [name for name in (name.strip() for name in text.split(",")) if name]
    chosen = next((name for name in names if name in EXPORTERS), "")
    if set(names) - {chosen}:
        wrong = _wrong("OTEL_TRACES_EXPORTER", text, f"{OTLP}, {ZIPKIN} or {NONE}")
        variables.warn(wrong, f"it counts as {chosen}" if chosen else "it counts as unset")
    return chosen


def _otlp_endpoint(given_url: str, variables: _Variables) -> str:
    """A URL without a path gets OTLP's, and so does OTEL_EXPORTER_OTLP_ENDPOINT always. Empty: nothing can be exported."""
    variable, protocol = variables.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol and protocol != PROTOCOL:
        wrong = _wrong(variable, protocol, f"{PROTOCOL}, which collectors take at port 4318")
        variables.warn(wrong, f"spans go to {given_url} by {PROTOCOL}" if given_url else NOT_EXPORTED)
        if not given_url:
            return ""
    _check_span_attributes(variables)
    variable, headers = variables.first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    try:
        _pairs(variable, headers)
    except ValueError as wrong:
        variables.warn(wrong, "that item is left out")
    if given_url:
        return given_url if urlsplit(given_url).path.strip("/") else f"{given_url.rstrip('/')}/{OTLP_PATH}"
    if variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return _standard_url(variables, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    base = _standard_url(variables, "OTEL_EXPORTER_OTLP_ENDPOINT", OTLP_ENDPOINT)
    return f"{base.rstrip('/')}/{OTLP_PATH}" if base else ""


def _check_span_attributes(variables: _Variables) -> None:
    limit = variables.get(SPAN_ATTRIBUTES).strip()
    try:
        is_limit = not limit or int(limit) >= 0
    except ValueError:
        is_limit = False
    if not is_limit:
        variables.warn(_wrong(SPAN_ATTRIBUTES, limit, "a whole number from 0"), "it counts as unset")


def _standard_url(variables: _Variables, variable: str, default: str) -> str:
    """Empty: it is no URL, and spans must not go to another place than was meant."""
    text = variables.get(variable)
    try:
        return _url(variable, text) if text else default
    except ValueError as wrong:
        variables.warn(wrong, NOT_EXPORTED)
        return ""


def _resources(variables: _Variables) -> ResourceSettings:
    """As the specification has it, one attribute that is wrong discards all."""
    name, attributes = variables.get("OTEL_SERVICE_NAME"), variables.get("OTEL_RESOURCE_ATTRIBUTES")
    try:
        return ResourceSettings(name, _pairs("OTEL_RESOURCE_ATTRIBUTES", attributes))
    except ValueError as wrong:
        variables.warn(wrong, "it counts as unset")
        return ResourceSettings(name)


def _url(variable: str, text: str) -> str:
    try:
        url = urlsplit(text)
        is_url = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url or any(character.isspace() for character in text):
        raise _wrong(variable, shown(text), f"a URL such as {OTLP_ENDPOINT}")
    return text


def _pairs(variable: str, text: str) -> tuple[tuple[str, str], ...]:
    """`key=value,key=value`, with values percent-encoded, as W3C Baggage has it."""
    pairs = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        key, equals, value = item.partition("=")
        if not key.strip() or not equals:
            raise ValueError(f"{variable} has an item without key=value; expected key=value, separated by commas")
        pairs.append((key.strip(), unquote(value.strip())))
    return tuple(pairs)
