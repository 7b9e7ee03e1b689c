{{/* What the values say of who may connect, and what of it contradicts itself. */}}

{{/* Gateways know a listener with TLS or SASL by its protocol, so those of two such listeners would send clients to each other. */}}
{{- define "penstock.protocolChecks" -}}
{{- $protocols := dict -}}
{{- range $index, $listener := .Values.listeners -}}
{{- $where := printf "listeners[%d] (%s)" $index $listener.name -}}
{{- $protocol := $listener.protocol | default "PLAINTEXT" -}}
{{- if and (ne $protocol "PLAINTEXT") (hasKey $protocols $protocol) -}}
{{- fail (printf "%s: %s has protocol %s too, and gateways of both would tell clients the address of either; expected one listener of that protocol" $where (get $protocols $protocol) $protocol) -}}
{{- end -}}
{{- $_ := set $protocols $protocol $listener.name -}}
{{- include "penstock.saslChecks" (dict "root" $ "listener" $listener "protocol" $protocol "where" $where) -}}
{{- include "penstock.tlsChecks" (dict "listener" $listener "protocol" $protocol "where" $where) -}}
{{- end -}}
{{- if not (or (hasKey $protocols "PLAINTEXT") .Values.operations.listener) -}}
{{- fail "no listener has protocol PLAINTEXT, and operations.listener names none by which helm test and the chart's jobs log in: give operations.listener and operations.clientSecret, or a listener with PLAINTEXT, whose allowFrom keeps others off" -}}
{{- end -}}
{{- include "penstock.operationsChecks" . -}}
{{- end -}}

{{- define "penstock.operationsChecks" -}}
{{- $given := .Values.operations -}}
{{- $listener := include "penstock.operationsListener" . | fromYaml -}}
{{- if and $given.listener (not $listener) -}}
{{- fail (printf "operations.listener is %s, and no listener has that name" $given.listener) -}}
{{- end -}}
{{- $protocol := $listener.protocol | default "PLAINTEXT" -}}
{{- if and $given.clientSecret (eq $protocol "PLAINTEXT") -}}
{{- fail "operations.clientSecret is given, and helm test and the chart's jobs come by a listener that asks for nothing: name one with TLS or SASL as operations.listener" -}}
{{- end -}}
{{- if and (ne $protocol "PLAINTEXT") (not $given.clientSecret) -}}
{{- fail (printf "operations.listener is %s, whose protocol is %s, and operations.clientSecret is empty: name a Secret with client.properties" $given.listener $protocol) -}}
{{- end -}}
{{- if eq (join "," ($listener.saslMechanisms | default list)) "OAUTHBEARER" -}}
{{- fail (printf "operations.listener is %s, where clients log in by tokens alone, and the chart's jobs have none: expected a listener with SCRAM or PLAIN" $given.listener) -}}
{{- end -}}
{{- end -}}

{{- define "penstock.saslChecks" -}}
{{- $listener := .listener -}}
{{- $where := .where -}}
{{- $protocol := .protocol -}}
{{- $mechanisms := $listener.saslMechanisms | default list -}}
{{- if not (hasPrefix "SASL_" $protocol) -}}
{{- if $mechanisms -}}
{{- fail (printf "%s: saslMechanisms is for a protocol with SASL; the protocol is %s" $where $protocol) -}}
{{- end -}}
{{- end -}}
{{- range $name, $mechanism := dict "saslPlainWithoutTls" "PLAIN" "saslOauthbearerWithoutTls" "OAUTHBEARER" -}}
{{- if and (get $listener $name) (ne $protocol "SASL_PLAINTEXT") -}}
{{- fail (printf "%s: %s is for protocol SASL_PLAINTEXT; the protocol is %s" $where $name $protocol) -}}
{{- end -}}
{{- if and (has $mechanism $mechanisms) (eq $protocol "SASL_PLAINTEXT") (not (get $listener $name)) -}}
{{- fail (printf "%s: %s without TLS shows %s to anyone on the network; %s=true allows it" $where $mechanism (ternary "passwords" "tokens" (eq $mechanism "PLAIN")) $name) -}}
{{- end -}}
{{- end -}}
{{- $values := .root.Values -}}
{{- $keys := "sasl_oauthbearer_jwks_endpoint_url" -}}
{{- if and (has "OAUTHBEARER" $mechanisms) (not (get $values.gateway.config $keys)) (not (get $values.config $keys)) -}}
{{- fail (printf "%s: OAUTHBEARER needs the keys that tokens are checked by: give gateway.config.%s, an address with https://" $where $keys) -}}
{{- end -}}
{{- end -}}

{{- define "penstock.tlsChecks" -}}
{{- $tls := .listener.tls | default dict -}}
{{- $where := .where -}}
{{- $auth := $tls.clientAuth | default "none" -}}
{{- if not (hasSuffix "SSL" .protocol) -}}
{{- if $tls -}}
{{- fail (printf "%s: tls is for a protocol with TLS, SSL or SASL_SSL; the protocol is %s" $where .protocol) -}}
{{- end -}}
{{- else -}}
{{- if and $tls.secret $tls.certManager -}}
{{- fail (printf "%s: tls.secret and tls.certManager are given: choose one; cert-manager writes a Secret of its own" $where) -}}
{{- end -}}
{{- if not (or $tls.secret $tls.certManager) -}}
{{- fail (printf "%s: protocol %s needs a certificate: give tls.secret, the name of a Secret with tls.crt and tls.key, or tls.certManager.issuerRef" $where .protocol) -}}
{{- end -}}
{{- if and $tls.clientCaSecret (eq $auth "none") -}}
{{- fail (printf "%s: tls.clientCaSecret is given, and clients are asked for no certificate: expected tls.clientAuth, requested or required" $where) -}}
{{- end -}}
{{- if and $tls.principalMappingRules (or (eq $auth "none") (ne .protocol "SSL")) -}}
{{- fail (printf "%s: tls.principalMappingRules is for protocol SSL with tls.clientAuth, where a certificate names the user" $where) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.rpcTlsChecks" -}}
{{- range $name, $value := .Values.rpcTls.certManager -}}
{{- if and $value (not $.Values.rpcTls.enabled) -}}
{{- fail (printf "rpcTls.enabled is false, and rpcTls.certManager.%s is given: pods speak no TLS with each other; expected rpcTls.enabled=true" $name) -}}
{{- end -}}
{{- if and $value (not $.Values.rpcTls.certManager.issuerRef.name) -}}
{{- fail (printf "rpcTls.certManager.%s is given, and rpcTls.certManager.issuerRef names nobody who signs" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.etcdTlsChecks" -}}
{{- range $name, $value := .Values.etcd.tls.certManager -}}
{{- if and $value (not $.Values.etcd.tls.enabled) -}}
{{- fail (printf "etcd.tls.enabled is false, and etcd.tls.certManager.%s is given: pods speak no TLS with etcd; expected etcd.tls.enabled=true" $name) -}}
{{- end -}}
{{- if and $value (not $.Values.etcd.tls.certManager.issuerRef.name) -}}
{{- fail (printf "etcd.tls.certManager.%s is given, and etcd.tls.certManager.issuerRef names nobody who signs" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* `true` if clients of a listener may come without saying who they are, as User:ANONYMOUS. Argument: the listener. */}}
{{- define "penstock.letsAnonymousIn" -}}
{{- $protocol := .protocol | default "PLAINTEXT" -}}
{{- if or (eq $protocol "PLAINTEXT") (and (eq $protocol "SSL") (ne ((.tls | default dict).clientAuth | default "none") "required")) }}true{{ end -}}
{{- end -}}

{{/* `true` if clients of a listener can say who they are. Argument: the listener. */}}
{{- define "penstock.authenticates" -}}
{{- $protocol := .protocol | default "PLAINTEXT" -}}
{{- if or (hasPrefix "SASL_" $protocol) (and (eq $protocol "SSL") (ne ((.tls | default dict).clientAuth | default "none") "none")) }}true{{ end -}}
{{- end -}}

{{- define "penstock.authorizerChecks" -}}
{{- $given := .Values.authorizer -}}
{{- if not $given.enabled -}}
{{- range $name := list "superUsers" "allowEveryoneIfNoAclFound" -}}
{{- if get $given $name -}}
{{- fail (printf "authorizer.enabled is false, and authorizer.%s is given: without an authorizer everybody may do everything; expected authorizer.enabled=true" $name) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- if not $given.superUsers -}}
{{- fail "authorizer.enabled is true, and authorizer.superUsers is empty: nobody could give permissions to anybody; name one, such as User:admin" -}}
{{- end -}}
{{- $authenticates := false -}}
{{- range $index, $listener := .Values.listeners -}}
{{- if include "penstock.authenticates" $listener }}{{ $authenticates = true }}{{ end -}}
{{- if and (has "User:ANONYMOUS" $given.superUsers) (include "penstock.letsAnonymousIn" $listener) (not $listener.allowFrom) -}}
{{- fail (printf "authorizer.superUsers has User:ANONYMOUS, who is anybody that reaches listeners[%d] (%s): give that listener allowFrom, so that only those peers and the pods of this release do" $index $listener.name) -}}
{{- end -}}
{{- end -}}
{{- if not $authenticates -}}
{{- fail "authorizer.enabled is true, and no listener asks clients who they are: expected one with SASL, or one with protocol SSL and tls.clientAuth" -}}
{{- end -}}
{{- end -}}
{{- end -}}
