{{/* Certificates: the Secrets that hold them, and what cert-manager is asked for. */}}

{{/* The Secret of a listener's key and certificate. Argument: dict "root" "listener". */}}
{{- define "penstock.listenerSecret" -}}
{{- (.listener.tls | default dict).secret | default (printf "%s-tls" (include "penstock.listenerName" .)) -}}
{{- end -}}

{{/*
What a listener's gateways mount, as a list of secret and folder. Whole folders: kubelet renews the files of these, and gateways
read them again. Argument: dict "root" "listener".
*/}}
{{- define "penstock.listenerSecrets" -}}
{{- $tls := .listener.tls | default dict -}}
{{- if has .listener.protocol (list "SSL" "SASL_SSL") -}}
- {secret: {{ include "penstock.listenerSecret" . }}, folder: /etc/penstock-tls, needed: true}
{{- with $tls.clientCaSecret }}
- {secret: {{ . }}, folder: /etc/penstock-clients, needed: true}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* The variables of a listener with TLS, as a list. Argument: dict "root" "listener". */}}
{{- define "penstock.tlsEnv" -}}
{{- $tls := .listener.tls | default dict -}}
{{- $auth := $tls.clientAuth | default "none" -}}
- {name: PENSTOCK_SSL_KEYSTORE_LOCATION, value: /etc/penstock-tls/tls.crt}
- {name: PENSTOCK_SSL_KEY_LOCATION, value: /etc/penstock-tls/tls.key}
{{- if ne $auth "none" }}
- {name: {{ ternary "PENSTOCK_SSL_CLIENT_AUTH" "PENSTOCK_SASL_SSL_CLIENT_AUTH" (eq .listener.protocol "SSL") }}, value: {{ $auth }}}
- {name: PENSTOCK_SSL_TRUSTSTORE_LOCATION, value: {{ ternary "/etc/penstock-clients/ca.crt" "/etc/penstock-tls/ca.crt" (not (empty $tls.clientCaSecret)) }}}
{{- end }}
{{- with $tls.principalMappingRules }}
- {name: PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES, value: {{ quote . }}}
{{- end }}
{{- end -}}

{{/*
A Certificate of cert-manager. Argument: dict "root" "component" "name" (its own, its Secret's) "ask" (the values: issuerRef,
duration, renewBefore) "usages" (list) "names" (a dict: dnsNames, ipAddresses, uris).
*/}}
{{- define "penstock.certificate" -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  labels: {{- include "penstock.labels" (dict "root" .root "component" .component) | nindent 4 }}
spec:
  secretName: {{ .name }}
  {{- toYaml .names | nindent 2 }}
  usages: {{ toJson (prepend .usages "digital signature") }}
  # A signature with P-256 is cheaper than one with RSA.
  privateKey: {algorithm: ECDSA, size: 256, encoding: PKCS8, rotationPolicy: Always}
  {{- with .ask.duration }}
  duration: {{ . }}
  {{- end }}
  {{- with .ask.renewBefore }}
  renewBefore: {{ . }}
  {{- end }}
  issuerRef:
    name: {{ .ask.issuerRef.name }}
    kind: {{ .ask.issuerRef.kind | default "Issuer" }}
    group: {{ .ask.issuerRef.group | default "cert-manager.io" }}
{{- end -}}
