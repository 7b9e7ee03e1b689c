"""The names of all settings, of whatever service: a process that is given another one warns of it.

The services' `config.py` have the settings. `tests/runtime/test_settings_of_services.py` holds the names to them.
"""

import difflib
from collections.abc import Iterable, Iterator

_NAMES = """
    add_scram_file admin_host admin_names admin_port admin_token_file advertised_host advertised_port_base
    allow_everyone_if_no_acl_found authentication_s_max authorizer broker_configs config connection_bytes_max
    connection_creation_rate_max connection_requests_max connections_max connections_per_ip_max connections_per_ip_overrides
    crowded_s_max data_dir default_durability default_partitions default_replication_factor drain_s_max election_ttl_s etcd
    etcd_ca_file etcd_cert_file etcd_key_file failed_authentication_delay_ms fenced_broker_s_max fetch_bytes_max
    fetch_wait_ms_max frame_bytes_max free_disk_percent_min gateway_rpc_tcp gateway_rpc_unix half_frame_s_max hand_over_s
    high_watermark_checkpoint_s host_id idle_s_max lag_series_max listen_host listener_name log_dirs log_file
    log_file_bytes_max log_format log_former_files_max log_level member_ttl_s node_id open_file_idle_s open_files_max
    parked_bytes_max partition_series_max patience_s peers plaintext_listener port_base producer_ids_max
    queued_request_bytes_max rack reauthentication_s_max recovery_checkpoint_s recovery_processes request_partitions_max
    rpc_advertised_host rpc_max_frame rpc_tcp rpc_tls_ca rpc_tls_certificate rpc_tls_key rpc_unix sasl_advertised_listener
    sasl_enabled_mechanisms sasl_listener sasl_oauthbearer_clock_skew_s sasl_oauthbearer_expected_audience
    sasl_oauthbearer_expected_issuer sasl_oauthbearer_jwks_ca_file sasl_oauthbearer_jwks_endpoint_refresh_s
    sasl_oauthbearer_jwks_endpoint_url sasl_oauthbearer_sub_claim_name sasl_oauthbearer_without_tls sasl_plain_without_tls
    sasl_ssl_client_auth sendfile_bytes_min shortcuts silence_s socket_send_buffer_bytes ssl_advertised_listener
    ssl_client_auth ssl_enabled_protocols ssl_key_location ssl_key_password_file ssl_keystore_location ssl_keystore_type
    ssl_listener ssl_principal_mapping_rules ssl_truststore_location ssl_truststore_type super_users sync_hang_s
    tls_handshake_s_max topic_series_max trace_endpoint trace_exporter trace_sample_ratio trace_slow_ms trace_spans_per_second
    unread_answer_bytes_max unread_answers_s_max volume_stamp_s
"""
NAMES = frozenset(_NAMES.split())
OF_TESTS = ("PENSTOCK_CHAOS_", "PENSTOCK_GROUPS_AGAINST", "PENSTOCK_REQUIRE_ALL", "PENSTOCK_TEST_")
"""What tests and their set-up read begins with one of these."""
_REVOCATION = frozenset({"CRL", "CRLS", "OCSP", "REVOCATION", "REVOKED"})


def unknown(variables: Iterable[str], prefix: str = "PENSTOCK_") -> Iterator[tuple[str, str]]:
    """Variables that no service reads, each with the setting that is most like it, or an empty text."""
    known = [name.upper() for name in sorted(NAMES)]
    for variable in sorted(variables):
        name = variable.removeprefix(prefix)
        if variable.startswith(prefix) and name not in known and not variable.startswith(OF_TESTS):
            yield variable, next((f"{prefix}{alike}" for alike in difflib.get_close_matches(name, known, n=1)), "")


def asks_for_revocation(variable: str) -> bool:
    """Whether a variable asks for revocation lists or OCSP, which nothing here reads. A warning would not do: certificates that
    its operator takes for revoked would be trusted."""
    return variable.startswith("PENSTOCK_") and any(word in _REVOCATION for word in variable.split("_"))
