"""Settings of traces: ours before OpenTelemetry's, and a sentence for each that is wrong."""

import os
import subprocess
import sys
from typing import Any

import pytest

from libs.runtime.service_config import ServiceConfig
from libs.runtime.tracing.process_tracing import read_trace_settings
from libs.runtime.tracing.trace_settings import NONE, OTLP, ZIPKIN, TraceSettings, trace_settings
from libs.telemetry.tracing.conventions import SERVICE_INSTANCE_ID, SERVICE_NAME
from libs.telemetry.tracing.exporting.collector import Origin
from libs.wire.api_keys import ApiKey
from tests.support.requirements import ROOT


def settings(given: dict[str, Any] | None = None, **env: str) -> TraceSettings:
    return trace_settings(ServiceConfig(node_id=1, etcd=(), data_dir="/d", **(given or {})), env)


def test_by_default_one_request_in_a_hundred_is_sampled_and_nothing_is_exported() -> None:
    default = settings()
    assert (default.rules.sample_ratio, default.rules.slow_ms, default.rules.spans_per_second) == (0.01, 100, 200)
    assert (default.exporter, default.endpoint) == (NONE, "")


@pytest.mark.parametrize(
    ("given", "env", "exporter", "endpoint"),
    [
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, OTLP, "http://c:4318/v1/traces"),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/a/"}, OTLP, "http://c:4318/a/v1/traces"),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x"}, OTLP, "http://c:4318/x"),
        ({}, {"OTEL_TRACES_EXPORTER": "otlp"}, OTLP, "http://localhost:4318/v1/traces"),
        ({}, {"OTEL_TRACES_EXPORTER": "zipkin"}, ZIPKIN, "http://localhost:9411/api/v2/spans"),
        ({}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, NONE, ""),
        ({}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, NONE, ""),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, NONE, ""),
        (
            {"trace_endpoint": "http://ours:4318"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"},
            OTLP,
            "http://ours:4318/v1/traces",
        ),
        ({"trace_endpoint": "https://ours/otlp/v1/traces"}, {}, OTLP, "https://ours/otlp/v1/traces"),
        ({"trace_endpoint": "http://[::1]:4318"}, {"OTEL_TRACES_EXPORTER": "none"}, OTLP, "http://[::1]:4318/v1/traces"),
        ({"trace_endpoint": "http://z:9411/api/v2/spans", "trace_exporter": "zipkin"}, {}, ZIPKIN, "http://z:9411/api/v2/spans"),
        ({"trace_exporter": "none", "trace_endpoint": "http://c:4318"}, {}, NONE, ""),
        ({"trace_endpoint": "http://c:4318"}, {"OTEL_SDK_DISABLED": "TRUE"}, NONE, ""),
    ],
)
def test_spans_go_where_our_settings_or_the_standard_variables_say(
    given: dict[str, Any], env: dict[str, str], exporter: str, endpoint: str
) -> None:
    found = settings(given, **env)
    assert (found.exporter, found.endpoint) == (exporter, endpoint)


@pytest.mark.parametrize(
    ("given", "env", "ratio", "heeds_clients"),
    [
        ({}, {"OTEL_TRACES_SAMPLER": "always_on"}, 1.0, False),
        ({}, {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0, True),
        ({}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25, False),
        ({}, {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0, True),
        ({}, {"OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.01, True),
        ({"trace_sample_ratio": 0.5}, {"OTEL_TRACES_SAMPLER": "always_off"}, 0.5, False),
    ],
)
def test_the_fraction_is_ours_or_the_samplers(
    given: dict[str, Any], env: dict[str, str], ratio: float, heeds_clients: bool
) -> None:
    rules = settings(given, **env).rules
    assert (rules.sample_ratio, rules.heeds_clients) == (ratio, heeds_clients)


def test_slow_is_told_for_all_apis_and_for_single_ones() -> None:
    rules = settings({"trace_slow_ms": ("50", "Fetch=500", "join_group=3000")}).rules
    assert rules.slow_ms == 50
    assert rules.slow_ms_by_api == {ApiKey.FETCH: 500, ApiKey.JOIN_GROUP: 3000}


def test_the_resource_is_the_services_own_unless_the_standard_variables_say_otherwise() -> None:
    origin = Origin("group_coordinator", 2, "0.1.0")
    assert settings().resources.of(origin)[SERVICE_NAME] == "penstock-group-coordinator"
    variables = {"OTEL_SERVICE_NAME": "orders-log", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b, service.name=other"}
    told = settings(OTEL_TRACES_EXPORTER="zipkin", **variables).resources.of(origin)
    assert (told[SERVICE_NAME], told["team"], told[SERVICE_INSTANCE_ID]) == ("orders-log", "a b", "group_coordinator-2")


@pytest.mark.parametrize(
    ("given", "env", "sentence"),
    [
        ({"trace_sample_ratio": 1.5}, {}, "PENSTOCK_TRACE_SAMPLE_RATIO is 1.5; expected a number from 0 to 1"),
        ({"trace_sample_ratio": float("nan")}, {}, "PENSTOCK_TRACE_SAMPLE_RATIO is nan; expected a number from 0 to 1"),
        ({"trace_slow_ms": ("Fetsch=5",)}, {}, "PENSTOCK_TRACE_SLOW_MS is 'Fetsch=5'; expected milliseconds"),
        ({"trace_slow_ms": ("0",)}, {}, "PENSTOCK_TRACE_SLOW_MS is '0'"),
        ({"trace_slow_ms": ("=5",)}, {}, "PENSTOCK_TRACE_SLOW_MS is '=5'"),
        ({"trace_spans_per_second": -1}, {}, "PENSTOCK_TRACE_SPANS_PER_SECOND is -1; expected 0 to 100000"),
        ({"trace_exporter": "jaeger"}, {}, "PENSTOCK_TRACE_EXPORTER is 'jaeger'; expected otlp, zipkin or none"),
        ({"trace_endpoint": "collector:4318"}, {}, "PENSTOCK_TRACE_ENDPOINT is 'collector:4318'; expected a URL such as"),
        ({"trace_endpoint": "http://c:99999"}, {}, "PENSTOCK_TRACE_ENDPOINT is 'http://c:99999'"),
        ({"trace_endpoint": "http://c:4318/a b"}, {}, "PENSTOCK_TRACE_ENDPOINT is 'http://c:4318/a b'"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(given: dict[str, Any], env: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        settings(given, **env)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("url", ["user:hunter2@c:4318", "http://user:hunter2@c:99999", "http://user:hunt er2@c:4318"])
def test_a_password_in_a_wrong_endpoint_is_not_in_its_sentence(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        settings({"trace_endpoint": url})
    assert "er2" not in str(refused.value)


def test_a_password_is_not_told_where_opentelemetry_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.runtime.tracing.process_tracing.find_spec", lambda name: None)
    given = ServiceConfig(node_id=1, etcd=(), data_dir="/d", trace_endpoint="http://user:hunter2@c:4318")
    with pytest.raises(ValueError, match="sent to http://c:4318/v1/traces, and OpenTelemetry") as refused:
        read_trace_settings(given, {})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "exporter", "sentence", "instead"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://c"}, NONE, "OTEL_EXPORTER_OTLP_ENDPOINT is 'ftp://c'", "nothing is exported"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "c:4317"}, NONE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is 'c:4317'", "nothing"),
        (
            {"OTEL_TRACES_EXPORTER": "console"},
            NONE,
            "OTEL_TRACES_EXPORTER is 'console'; expected otlp, zipkin or none",
            "it counts as unset",
        ),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, OTLP, "OTEL_TRACES_EXPORTER is 'console, otlp'", "it counts as otlp"),
        ({"OTEL_TRACES_SAMPLER": "xray"}, NONE, "OTEL_TRACES_SAMPLER is 'xray'; expected one of always_on", "it counts as unset"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            NONE,
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; expected http/protobuf, which collectors take at port 4318",
            "nothing is exported",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_RESOURCE_ATTRIBUTES": "team"},
            ZIPKIN,
            "OTEL_RESOURCE_ATTRIBUTES has an item without key=value",
            "it counts as unset",
        ),
    ],
)
def test_a_wrong_variable_of_opentelemetry_is_told_and_ends_nothing(
    env: dict[str, str], exporter: str, sentence: str, instead: str
) -> None:
    found = settings(**env)
    (told,) = found.not_heeded
    assert told.reason.startswith(sentence)
    assert told.instead.startswith(instead)
    assert found.exporter == exporter
    assert (found.rules, found.resources) == (settings().rules, settings().resources)


@pytest.mark.parametrize("limit", ["abc", "-1", "1.5", "9" * 5000])
def test_a_limit_that_ends_the_import_of_opentelemetry_counts_as_unset(limit: str) -> None:
    found = settings({"trace_endpoint": "http://c:4318"}, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=limit)
    (told,) = found.not_heeded
    assert told == (f"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT is {limit!r}; expected a whole number from 0", "it counts as unset")
    assert found.exporter == OTLP


def test_variables_that_opentelemetry_reads_at_its_import_are_kept_from_it() -> None:
    """Each of them alone makes the import fail, or write a traceback."""
    program = (
        "import os; from libs.runtime.tracing import process_tracing, trace_settings; "
        "process_tracing.collector_of(trace_settings.TraceSettings(exporter='otlp', endpoint='http://c')); "
        "print(os.environ['OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT'])"
    )
    env = {**os.environ, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc", "OTEL_PYTHON_CONTEXT": "none such"}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "abc\n", "")


def test_a_wrong_fraction_of_opentelemetry_counts_as_unset() -> None:
    found = settings(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG="2")
    assert found.rules.sample_ratio == 1.0
    (told,) = found.not_heeded
    assert told.reason == "OTEL_TRACES_SAMPLER_ARG is '2'; expected a number from 0 to 1"


def test_our_endpoint_goes_before_a_protocol_that_is_meant_for_others() -> None:
    found = settings({"trace_endpoint": "http://c:4318"}, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (found.exporter, found.endpoint) == (OTLP, "http://c:4318/v1/traces")
    (told,) = found.not_heeded
    assert told.instead == "spans go to http://c:4318 by http/protobuf"


def test_what_does_not_matter_is_not_told() -> None:
    env = {"OTEL_RESOURCE_ATTRIBUTES": "team", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_HEADERS": "x"}
    assert settings(**env).not_heeded == ()


def test_headers_which_may_be_secrets_are_never_told() -> None:
    (told,) = settings({"trace_endpoint": "http://c:4318"}, OTEL_EXPORTER_OTLP_HEADERS="hunter2").not_heeded
    assert "hunter2" not in str(told)
    assert told.reason.startswith("OTEL_EXPORTER_OTLP_HEADERS has an item without key=value")
