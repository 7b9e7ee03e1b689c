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

{{/* The certificates for etcd (docs/security.md, etcd): a common name is its user. */}}

{{/* The Secret of a user, or of etcd itself. Argument: the name of a StatefulSet, or of the user of the set-up. */}}
{{- define "penstock.etcdSecret" -}}
{{- printf "%s-etcd-tls" . -}}
{{- end -}}

{{/* The variables of a process that is a user of etcd, as a list. Argument: root. */}}
{{- define "penstock.etcdEnv" -}}
{{- if .Values.etcd.tls.enabled -}}
- {name: PENSTOCK_ETCD_CA_FILE, value: /etc/penstock-etcd-tls/ca.crt}
- {name: PENSTOCK_ETCD_CERT_FILE, value: /etc/penstock-etcd-tls/tls.crt}
- {name: PENSTOCK_ETCD_KEY_FILE, value: /etc/penstock-etcd-tls/tls.key}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* Argument: dict "root" "component" "name" "user". */}}
{{- define "penstock.etcdUserCertificate" -}}
{{- include "penstock.certificate" (dict "root" .root
    "component" .component
    "name" (include "penstock.etcdSecret" .name)
    "ask" .root.Values.etcd.tls.certManager
    "usages" (list "client auth")
    "names" (dict "commonName" .user)
) -}}
{{- end -}}

{{/* The certificates of pods, which show them to each other (docs/security.md, Between hosts). */}}

{{/* The Secret that all pods of a StatefulSet share: their template cannot give each its own. Argument: the set's name. */}}
{{- define "penstock.rpcSecret" -}}
{{- printf "%s-rpc-tls" . -}}
{{- end -}}

{{/*
The last id that a set's certificate names. It names more than run: a new pod does not start before its Secret names it. Argument: dict "root" "service" "first" "replicas".
*/}}
{{- define "penstock.lastNamedId" -}}
{{- $count := mul 10 (div (add (int .replicas) 9) 10) -}}
{{- if eq .service "storage" }}{{ $count = int .root.Values.storage.maxReplicas }}{{ end -}}
{{- sub (add .first $count) 1 -}}
{{- end -}}

{{- define "penstock.rpcCertificate" -}}
{{- $service := .service -}}
{{- $uris := list -}}
{{- range $id := untilStep (int .first) (int (add1 (include "penstock.lastNamedId" . | int))) 1 -}}
{{- $uris = append $uris (printf "penstock:///%s/%d" $service $id) -}}
{{- end -}}
{{- include "penstock.certificate" (dict "root" .root
    "component" .component
    "name" (include "penstock.rpcSecret" .name)
    "ask" .root.Values.rpcTls.certManager
    "usages" (list "server auth" "client auth")
    "names" (dict "uris" $uris)
) -}}
{{- end -}}
