"""Wrong, missing and contradictory values stop the install with a sentence that names the value and what is allowed."""

import typing
from pathlib import Path

import pytest

from libs.runtime.config import ConfigError, load
from libs.runtime.tracing.trace_settings import trace_settings
from tests.deploy.chart.rendering import Object, refusal
from tests.docs.chart_page import CHOICES, configs

PLAIN = {"name": "PLAINTEXT", "type": "ClusterIP", "portBase": 9092}
NODES = {"name": "NODES", "type": "NodePort", "portBase": 9192, "nodePortBase": 30092, "advertisedHost": "node.example.net"}
BALANCED = {"name": "EXTERNAL", "type": "LoadBalancer", "portBase": 9092, "advertisedHost": "kafka.example.net"}

TLS: Object = {**PLAIN, "name": "TLS", "protocol": "SSL", "tls": {"secret": "kafka-tls"}}
CLOSED: Object = {**PLAIN, "allowFrom": [{"podSelector": {}}]}
SASL = {"name": "SASL", "type": "ClusterIP", "protocol": "SASL_PLAINTEXT", "portBase": 9092}

CONTRADICTIONS: dict[str, tuple[Object, str]] = {
    "more storage nodes than ports": (
        {"storage": {"replicas": 5, "maxReplicas": 4}},
        "storage.replicas is 5, more than storage.maxReplicas, which is 4: raise storage.maxReplicas",
    ),
    "a replication factor above the storage nodes": (
        {"controller": {"config": {"default_replication_factor": 4}}},
        "default_replication_factor is 4, more than storage.replicas, which is 3",
    ),
    "own etcd and another": (
        {"etcd": {"external": {"endpoints": ["etcd.example.net:2379"]}}},
        "etcd.enabled is true, and etcd.external.endpoints is given: choose one",
    ),
    "two monitors": (
        {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        "metrics.podMonitor.enabled and metrics.serviceMonitor.enabled are true: choose one",
    ),
    "no etcd": ({"etcd": {"enabled": False}}, "etcd.external.endpoints is empty: give host:port of each member"),
    "mechanisms without authentication": (
        {"listeners": [{**PLAIN, "saslMechanisms": ["PLAIN"]}]},
        "listeners[0] (PLAINTEXT): saslMechanisms is for a protocol with SASL; the protocol is PLAINTEXT",
    ),
    "two listeners with SASL": (
        {"listeners": [PLAIN, SASL, {**SASL, "name": "OTHER"}]},
        "listeners[2] (OTHER): SASL has protocol SASL_PLAINTEXT too",
    ),
    "PLAIN without TLS": (
        {"listeners": [PLAIN, {**SASL, "saslMechanisms": ["PLAIN"]}]},
        "listeners[1] (SASL): PLAIN without TLS shows passwords to anyone on the network; saslPlainWithoutTls=true allows it",
    ),
    "permission for PLAIN where TLS is": (
        {"listeners": [PLAIN, {**TLS, "protocol": "SASL_SSL", "saslPlainWithoutTls": True}]},
        "listeners[1] (TLS): saslPlainWithoutTls is for protocol SASL_PLAINTEXT; the protocol is SASL_SSL",
    ),
    "tokens without TLS": (
        {"listeners": [PLAIN, {**SASL, "saslMechanisms": ["OAUTHBEARER"]}]},
        "listeners[1] (SASL): OAUTHBEARER without TLS shows tokens to anyone on the network; saslOauthbearerWithoutTls=true",
    ),
    "tokens that nothing checks": (
        {"listeners": [PLAIN, {**TLS, "protocol": "SASL_SSL", "saslMechanisms": ["OAUTHBEARER"]}]},
        "listeners[1] (TLS): OAUTHBEARER needs the keys that tokens are checked by: give gateway.config.sasl_oauthbearer_jwks_",
    ),
    "mechanisms with TLS alone": (
        {"listeners": [PLAIN, {**TLS, "saslMechanisms": ["PLAIN"]}]},
        "listeners[1] (TLS): saslMechanisms is for a protocol with SASL; the protocol is SSL",
    ),
    "TLS without a certificate": (
        {"listeners": [PLAIN, {**TLS, "tls": {}}]},
        "listeners[1] (TLS): protocol SSL needs a certificate: give tls.secret, the name of a Secret with tls.crt and tls.key,",
    ),
    "SASL_SSL without a certificate": (
        {"listeners": [PLAIN, {**SASL, "protocol": "SASL_SSL"}]},
        "listeners[1] (SASL): protocol SASL_SSL needs a certificate",
    ),
    "two certificates": (
        {"listeners": [PLAIN, {**TLS, "tls": {"secret": "a", "certManager": {"issuerRef": {"name": "ca"}}}}]},
        "listeners[1] (TLS): tls.secret and tls.certManager are given: choose one",
    ),
    "a certificate without TLS": (
        {"listeners": [PLAIN, {**SASL, "tls": {"secret": "a"}}]},
        "listeners[1] (SASL): tls is for a protocol with TLS, SSL or SASL_SSL; the protocol is SASL_PLAINTEXT",
    ),
    "an authority for clients that nobody asks": (
        {"listeners": [PLAIN, {**TLS, "tls": {"secret": "a", "clientCaSecret": "b"}}]},
        "listeners[1] (TLS): tls.clientCaSecret is given, and clients are asked for no certificate: expected tls.clientAuth",
    ),
    "rules for certificates that nobody shows": (
        {"listeners": [PLAIN, {**TLS, "tls": {"secret": "a", "principalMappingRules": "DEFAULT"}}]},
        "listeners[1] (TLS): tls.principalMappingRules is for protocol SSL with tls.clientAuth",
    ),
    "super users without an authorizer": (
        {"authorizer": {"superUsers": ["User:admin"]}, "listeners": [PLAIN, SASL]},
        "authorizer.enabled is false, and authorizer.superUsers is given: without an authorizer everybody may do everything",
    ),
    "permission for all without an authorizer": (
        {"authorizer": {"allowEveryoneIfNoAclFound": True}},
        "authorizer.enabled is false, and authorizer.allowEveryoneIfNoAclFound is given",
    ),
    "an authorizer without super users": (
        {"authorizer": {"enabled": True}, "listeners": [PLAIN, SASL]},
        "authorizer.enabled is true, and authorizer.superUsers is empty: nobody could give permissions to anybody",
    ),
    "an authorizer without authentication": (
        {"authorizer": {"enabled": True, "superUsers": ["User:admin"]}, "listeners": [PLAIN, TLS]},
        "authorizer.enabled is true, and no listener asks clients who they are: expected one with SASL, or one with protocol SSL",
    ),
    "anybody as a super user": (
        {"authorizer": {"enabled": True, "superUsers": ["User:ANONYMOUS"]}, "listeners": [PLAIN, SASL]},
        "authorizer.superUsers has User:ANONYMOUS, who is anybody that reaches listeners[0] (PLAINTEXT): give that listener",
    ),
    "anybody with TLS as a super user": (
        {"authorizer": {"enabled": True, "superUsers": ["User:ANONYMOUS"]}, "listeners": [CLOSED, SASL, TLS]},
        "authorizer.superUsers has User:ANONYMOUS, who is anybody that reaches listeners[2] (TLS)",
    ),
    "an issuer for pods that speak no TLS": (
        {"rpcTls": {"certManager": {"issuerRef": {"name": "ca"}}}},
        "rpcTls.enabled is false, and rpcTls.certManager.issuerRef is given: pods speak no TLS with each other",
    ),
    "a validity of certificates that nobody signs": (
        {"rpcTls": {"enabled": True, "certManager": {"duration": "2160h"}}},
        "rpcTls.certManager.duration is given, and rpcTls.certManager.issuerRef names nobody who signs",
    ),
    "an issuer for an etcd without TLS": (
        {"etcd": {"tls": {"certManager": {"issuerRef": {"name": "ca"}}}}},
        "etcd.tls.enabled is false, and etcd.tls.certManager.issuerRef is given: pods speak no TLS with etcd",
    ),
    "a validity of certificates for etcd that nobody signs": (
        {"etcd": {"tls": {"enabled": True, "certManager": {"duration": "2160h"}}}},
        "etcd.tls.certManager.duration is given, and etcd.tls.certManager.issuerRef names nobody who signs",
    ),
    "no listener for the jobs": (
        {"listeners": [SASL]},
        "no listener has protocol PLAINTEXT, and operations.listener names none by which helm test and the chart's jobs log in",
    ),
    "a listener for the jobs that there is not": (
        {"listeners": [SASL], "operations": {"listener": "OTHER", "clientSecret": "operator"}},
        "operations.listener is OTHER, and no listener has that name",
    ),
    "jobs that say who they are where nobody asks": (
        {"operations": {"listener": "PLAINTEXT", "clientSecret": "operator"}},
        "operations.clientSecret is given, and helm test and the chart's jobs come by a listener that asks for nothing",
    ),
    "jobs without a password": (
        {"listeners": [SASL], "operations": {"listener": "SASL"}},
        "operations.listener is SASL, whose protocol is SASL_PLAINTEXT, and operations.clientSecret is empty",
    ),
    "jobs without a token": (
        {
            "listeners": [{**SASL, "saslMechanisms": ["OAUTHBEARER"], "saslOauthbearerWithoutTls": True}],
            "operations": {"listener": "SASL", "clientSecret": "operator"},
            "gateway": {"config": {"sasl_oauthbearer_jwks_endpoint_url": "https://login.example.net/keys"}},
        },
        "operations.listener is SASL, where clients log in by tokens alone, and the chart's jobs have none",
    ),
    "two listeners of one name": (
        {"listeners": [PLAIN, {**PLAIN, "portBase": 9192}]},
        "listeners[1] (PLAINTEXT): there is another listener of that name; expected names that differ",
    ),
    "a listener with the name of another Service": (
        {"listeners": [{**PLAIN, "name": "STORAGE"}]},
        "listeners[0] (STORAGE): that is the name of another Service of this chart",
    ),
    "a port base that meets the RPC port": (
        {"listeners": [{**PLAIN, "portBase": 9295}]},
        "ports 9295 to 9305 (portBase + storage.maxReplicas) contain 9300, which is RPC",
    ),
    "a port base that meets the admin port": (
        {"listeners": [{**PLAIN, "portBase": 9600}]},
        "contain 9600, which is the admin port: choose another portBase",
    ),
    "ports past the last": ({"listeners": [{**PLAIN, "portBase": 65530}]}, "is 65540; expected 65535 at most"),
    "node ports below the range": (
        {"listeners": [{**NODES, "nodePortBase": 29999}]},
        "node ports 29999 to 30009 (nodePortBase + storage.maxReplicas); expected ports within 30000 to 32767",
    ),
    "node ports above the range": (
        {"listeners": [{**NODES, "nodePortBase": 32760}]},
        "node ports 32760 to 32770 (nodePortBase + storage.maxReplicas); expected ports within 30000 to 32767",
    ),
    "node ports that overlap": (
        {"listeners": [NODES, {**NODES, "name": "MORE", "nodePortBase": 30100}]},
        "listeners[1] (MORE): node ports 30100 to 30110 overlap with those of listener NODES",
    ),
    "no node ports": (
        {"listeners": [{key: value for key, value in NODES.items() if key != "nodePortBase"}]},
        "listeners[0] (NODES): a NodePort listener needs nodePortBase",
    ),
    "node ports of another type": (
        {"listeners": [{**PLAIN, "nodePortBase": 30092}]},
        "nodePortBase is for type NodePort; the type is ClusterIP",
    ),
    "a load balancer without a name": (
        {"listeners": [{"name": "EXTERNAL", "type": "LoadBalancer", "portBase": 9092}]},
        "listeners[0] (EXTERNAL): a LoadBalancer listener needs advertisedHost",
    ),
    "an unknown setting": (
        {"storage": {"config": {"sync_hangs_s": 5}}},
        "storage.config.sync_hangs_s: there is no such setting, or the chart sets it itself; expected one of admin_names,",
    ),
    "a setting of another service": (
        {"controller": {"config": {"idle_s_max": 5}}},
        "controller.config.idle_s_max: there is no such setting",
    ),
    "a setting that the chart sets": (
        {"gateway": {"config": {"port_base": 9092}}},
        "gateway.config.port_base: there is no such setting, or the chart sets it itself",
    ),
    "a common setting that no service has": ({"config": {"log_levl": "debug"}}, "config.log_levl: no service has such a setting"),
    "a text for a number": (
        {"storage": {"config": {"sync_hang_s": "soon"}}},
        "storage.config.sync_hang_s is soon; expected a number",
    ),
    "a fraction of a whole number": (
        {"gateway": {"config": {"connections_max": 1.5}}},
        "gateway.config.connections_max is 1.5; expected a whole number",
    ),
    "a number for a text": (
        {"config": {"log_level": 3}},
        "config.log_level is 3; expected one of trace, debug, info, warning, error",
    ),
    "a text that is none of a few": (
        {"gateway": {"config": {"log_level": "loud"}}},
        "gateway.config.log_level is loud; expected one of trace, debug, info, warning, error",
    ),
    "a number below zero": (
        {"gateway": {"config": {"frame_bytes_max": -1}}},
        "gateway.config.frame_bytes_max is -1; expected 0 or more",
    ),
    "a text for a list": (
        {"storage": {"config": {"broker_configs": "log.retention.hours=24"}}},
        "storage.config.broker_configs is log.retention.hours=24; expected a list",
    ),
    "peers of a listener without a policy": (
        {"networkPolicy": {"enabled": False}, "listeners": [{**PLAIN, "allowFrom": [{"podSelector": {}}]}]},
        "networkPolicy.enabled is false, and listeners[0] (PLAINTEXT) has allowFrom: nothing would keep others off",
    ),
    "peers for metrics without a policy": (
        {"networkPolicy": {"enabled": False, "metricsFrom": [{"podSelector": {}}]}},
        "networkPolicy.enabled is false, and networkPolicy.metricsFrom is given: nothing would keep others off",
    ),
    "a load balancer's class of another type": (
        {"listeners": [{**NODES, "loadBalancerClass": "example.net/lb"}]},
        "listeners[0] (NODES): loadBalancerClass is for type LoadBalancer; the type is NodePort",
    ),
    "a load balancer's sources of another type": (
        {"listeners": [{**PLAIN, "loadBalancerSourceRanges": ["192.0.2.0/24"]}]},
        "listeners[0] (PLAINTEXT): loadBalancerSourceRanges is for type LoadBalancer; the type is ClusterIP",
    ),
    "a policy for traffic from outside that there is not": (
        {"listeners": [{**PLAIN, "externalTrafficPolicy": "Local"}]},
        "listeners[0] (PLAINTEXT): externalTrafficPolicy is for types LoadBalancer and NodePort; the type is ClusterIP",
    ),
    "a node selector beside podSpec": (
        {"storage": {"nodeSelector": {"disk": "nvme"}}},
        "storage.nodeSelector is no value of this chart any more: give storage.podSpec.nodeSelector",
    ),
    "tolerations beside podSpec": (
        {"etcd": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}},
        "etcd.tolerations is no value of this chart any more: give etcd.podSpec.tolerations",
    ),
    "affinity beside podSpec": (
        {"gateway": {"affinity": {"podAffinity": {}}}},
        "gateway.affinity is no value of this chart any more: give gateway.podSpec.affinity",
    ),
    "variables beside podSpec": (
        {"groupCoordinator": {"extraEnv": [{"name": "TZ", "value": "UTC"}]}},
        "groupCoordinator.extraEnv is no value of this chart any more: give groupCoordinator.podSpec.containers[0], with the "
        "name group-coordinator and the variables as env",
    ),
}

OUT_OF_SCHEMA: dict[str, tuple[Object, str]] = {
    "an unknown value": ({"storag": {"replicas": 3}}, "storag"),
    "an unknown value below a known one": ({"storage": {"replica": 3}}, "replica"),
    "an even number of members of etcd": ({"etcd": {"replicas": 4}}, "etcd.replicas"),
    "an unknown state of etcd's cluster": ({"etcd": {"initialClusterState": "old"}}, "etcd.initialClusterState"),
    "no storage node": ({"storage": {"replicas": 0}}, "storage.replicas"),
    "too many controllers": ({"controller": {"replicas": 6}}, "controller.replicas"),
    "a text for a count": ({"gateway": {"replicas": "two"}}, "gateway.replicas"),
    "a size without a unit": ({"storage": {"persistence": {"size": "100"}}}, "storage.persistence.size"),
    "an unknown type of listener": ({"listeners": [{**PLAIN, "type": "Ingress"}]}, "listeners.0.type"),
    "a certificate without an issuer": ({"listeners": [PLAIN, {**TLS, "tls": {"certManager": {}}}]}, "certManager"),
    "an unknown way to ask for certificates": ({"listeners": [PLAIN, {**TLS, "tls": {"clientAuth": "maybe"}}]}, "clientAuth"),
    "a super user without a type": ({"authorizer": {"enabled": True, "superUsers": ["admin"]}}, "superUsers.0"),
    "super users in one text": ({"authorizer": {"enabled": True, "superUsers": ["User:a,User:b"]}}, "superUsers.0"),
    "a mechanism that is not served": ({"listeners": [PLAIN, {**SASL, "saslMechanisms": ["GSSAPI"]}]}, "saslMechanisms.0"),
    "a listener's name in small letters": ({"listeners": [{**PLAIN, "name": "plain"}]}, "listeners.0.name"),
    "no listener": ({"listeners": []}, "listeners"),
    "an advertised address with a port": (
        {"listeners": [{**NODES, "advertisedHost": "node:30092"}]},
        "listeners.0.advertisedHost",
    ),
    "an endpoint with a scheme": ({"etcd": {"enabled": False, "external": {"endpoints": ["http://etcd:2379"]}}}, "endpoints.0"),
    "an unknown source of racks": ({"rack": {"source": "zone"}}, "rack.source"),
    "a label of the chart": ({"commonLabels": {"app.kubernetes.io/instance": "other"}}, "commonLabels"),
    "another label of the chart": ({"commonLabels": {"penstock/set": "other"}}, "commonLabels"),
    "names that are too long": ({"fullnameOverride": "a" * 29}, "fullnameOverride"),
    "a listener's name that ends in an underscore": ({"listeners": [{**PLAIN, "name": "A_"}]}, "listeners.0.name"),
    "a source that is no range of addresses": (
        {"listeners": [{**BALANCED, "loadBalancerSourceRanges": ["192.0.2.1"]}]},
        "listeners.0.loadBalancerSourceRanges.0",
    ),
    "no section of storage nodes": ({"storage": None}, "storage"),
    "no section of volumes": ({"storage": {"persistence": None}}, "persistence"),
    "no section of leaving nodes": ({"storage": {"scaleDown": None}}, "scaleDown"),
    "no list of listeners": ({"listeners": None}, "listeners"),
    "no count": ({"storage": {"replicas": None}}, "replicas"),
    "no settings": ({"gateway": {"config": None}}, "config"),
    "no section of another etcd": ({"etcd": {"external": None}}, "external"),
    "root": ({"podSecurity": {"uid": 0}}, "podSecurity.uid"),
    "a secret of the jobs with a blank": ({"operations": {"clientSecret": "my secret"}}, "operations.clientSecret"),
    "a tag with a blank": ({"image": {"repository": "penstock", "tag": "0.1 0"}}, "image.tag"),
    "a repository with a blank": ({"image": {"repository": "my penstock"}}, "image.repository"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradiction_is_refused_in_one_sentence(what: str, tmp_path: Path) -> None:
    values, words = CONTRADICTIONS[what]
    said = refusal(values, tmp_path)
    assert words in said
    assert len(said.splitlines()) <= 3, said


@pytest.mark.parametrize("what", OUT_OF_SCHEMA)
def test_what_the_schema_does_not_allow_is_refused_by_name(what: str, tmp_path: Path) -> None:
    values, name = OUT_OF_SCHEMA[what]
    said = refusal(values, tmp_path)
    assert "values don't meet the specifications of the schema" in said
    assert name in said.replace("/", ".")  # later versions of Helm write paths
    assert "nil pointer" not in said


@pytest.mark.parametrize(
    ("service", "setting"),
    [
        (service, setting)
        for service, config in configs().items()
        for setting in CHOICES
        if setting in typing.get_type_hints(config)
    ],
)
def test_the_chart_allows_the_texts_that_a_service_takes(service: str, setting: str) -> None:
    needed = {"NODE_ID": "1", "ETCD": "localhost:2379", "DATA_DIR": "/data", "RPC_UNIX": "/socket", "PORT_BASE": "9092"}

    def problem(text: str) -> str | None:
        environment = {f"PENSTOCK_{name}": value for name, value in {**needed, setting.upper(): text}.items()}
        try:
            config = load(configs()[service], env=environment)
            found: str | None = config.problem()
            trace_settings(config, {})
        except (ConfigError, ValueError) as error:
            return str(error)
        return found

    assert [problem(text) for text in CHOICES[setting]] == [None] * len(CHOICES[setting])
    assert "expected" in (problem("none of these") or "")
