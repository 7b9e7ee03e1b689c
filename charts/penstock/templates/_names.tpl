{{/* Names and labels. */}}
{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "penstock" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-penstock" .Release.Name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods; they never change. Argument: dict "root" "component". */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of pods: none that changes with the chart's version, or each upgrade would restart all of them. */}}
{{- define "penstock.podLabels" -}}
{{ include "penstock.selector" . }}
penstock/set: {{ .set }}
{{- with mergeOverwrite (deepCopy .root.Values.commonLabels) (.more | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Argument: dict "root" "service". */}}
{{- define "penstock.image" -}}
{{- printf "%s/%s:%s" .root.Values.image.repository .service (.root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}

{{/* An image without a registry's host was loaded into the nodes: a stranger's of that name must not be pulled. Argument: root. */}}
{{- define "penstock.pullPolicy" -}}
{{- $host := first (splitList "/" .Values.image.repository) -}}
{{- .Values.image.pullPolicy | default (ternary "IfNotPresent" "Never" (or (contains "." $host) (contains ":" $host) (eq $host "localhost"))) -}}
{{- end -}}

{{/* The DNS name of one pod. Argument: dict "root" "set" (the StatefulSet, and its headless Service) "index". */}}
{{- define "penstock.podHost" -}}
{{- printf "%s-%d.%s.%s.svc.%s" .set (int .index) .set .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{/* `host:port` of each member of etcd, separated by commas. */}}
{{- define "penstock.etcdEndpoints" -}}
{{- if .Values.etcd.enabled -}}
{{- $set := printf "%s-etcd" (include "penstock.fullname" .) -}}
{{- range $index := until (int .Values.etcd.replicas) -}}
{{- if $index }},{{ end }}{{ include "penstock.podHost" (dict "root" $ "set" $set "index" $index) }}:2379
{{- end -}}
{{- else -}}
{{- join "," .Values.etcd.external.endpoints -}}
{{- end -}}
{{- end -}}

{{/* The RPC of the controllers. They lend the metadata to a pod that starts anew while etcd is away. */}}
{{- define "penstock.peers" -}}
{{- $set := printf "%s-controller" (include "penstock.fullname" .) -}}
{{- range $index := until (int .Values.controller.replicas) -}}
{{- if $index }},{{ end }}{{ include "penstock.podHost" (dict "root" $ "set" $set "index" (add1 $index)) }}:9300
{{- end -}}
{{- end -}}

{{/* The Service and the gateways of a listener. Argument: dict "root" "listener". */}}
{{- define "penstock.listenerName" -}}
{{- printf "%s-%s" (include "penstock.fullname" .root) (.listener.name | lower | replace "_" "-") -}}
{{- end -}}

{{- define "penstock.listenerHost" -}}
{{- if .listener.advertisedHost -}}
{{- .listener.advertisedHost -}}
{{- else -}}
{{- printf "%s.%s.svc.%s" (include "penstock.listenerName" .) .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}
{{- end -}}

{{- define "penstock.listenerPort" -}}
{{- if eq .listener.type "NodePort" }}{{ int .listener.nodePortBase }}{{ else }}{{ int .listener.portBase }}{{ end -}}
{{- end -}}

{{/*
The variables of a listener's gateways, as a list. A gateway always has a listener without authentication: where its clients must
authenticate, that one is for its own pod only. Argument: dict "root" "listener".
*/}}
{{- define "penstock.listenerEnv" -}}
{{- $host := include "penstock.listenerHost" . -}}
{{- $port := include "penstock.listenerPort" . -}}
{{- $protocol := .listener.protocol | default "PLAINTEXT" -}}
{{- if eq $protocol "PLAINTEXT" -}}
- {name: PENSTOCK_LISTENER_NAME, value: {{ .listener.name }}}
- {name: PENSTOCK_LISTEN_HOST, value: 0.0.0.0}
- {name: PENSTOCK_PORT_BASE, value: {{ int .listener.portBase | quote }}}
- {name: PENSTOCK_ADVERTISED_HOST, value: {{ $host }}}
- {name: PENSTOCK_ADVERTISED_PORT_BASE, value: {{ $port | quote }}}
{{- else -}}
- {name: PENSTOCK_LISTENER_NAME, value: {{ printf "POD_OF_%s" .listener.name }}}
- {name: PENSTOCK_LISTEN_HOST, value: 127.0.0.1}
- {name: PENSTOCK_PORT_BASE, value: {{ ternary "25092" "5092" (lt (int .listener.portBase) 15000) | quote }}}
- {name: PENSTOCK_ADVERTISED_HOST, value: 127.0.0.1}
{{- $kind := ternary "SASL" "SSL" (hasPrefix "SASL_" $protocol) }}
- {name: PENSTOCK_{{ $kind }}_LISTENER, value: {{ printf "%s://0.0.0.0:%d" $protocol (int .listener.portBase) | quote }}}
- {name: PENSTOCK_{{ $kind }}_ADVERTISED_LISTENER, value: {{ printf "%s://%s:%s" $protocol $host $port | quote }}}
{{- if hasSuffix "SSL" $protocol }}
{{ include "penstock.tlsEnv" . }}
{{- end }}
{{- with .listener.saslMechanisms }}
- {name: PENSTOCK_SASL_ENABLED_MECHANISMS, value: {{ join "," . | quote }}}
{{- end }}
{{- if .listener.saslPlainWithoutTls }}
- {name: PENSTOCK_SASL_PLAIN_WITHOUT_TLS, value: "true"}
{{- end }}
{{- if .listener.saslOauthbearerWithoutTls }}
- {name: PENSTOCK_SASL_OAUTHBEARER_WITHOUT_TLS, value: "true"}
{{- end }}
{{- end }}
{{- with .root.Values.authorizer }}
{{- if .enabled }}
- {name: PENSTOCK_AUTHORIZER, value: StandardAuthorizer}
- {name: PENSTOCK_SUPER_USERS, value: {{ join ";" .superUsers | quote }}}
- {name: PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND, value: {{ toString .allowEveryoneIfNoAclFound | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Where pipelines reach the cluster: a listener that asks them for no password, within Kubernetes if there is such a one; else the
listener of the chart's jobs, at which the job's file says how it logs in.
*/}}
{{- define "penstock.bootstrap" -}}
{{- $open := list -}}
{{- range .Values.listeners -}}
{{- if eq (.protocol | default "PLAINTEXT") "PLAINTEXT" }}{{ $open = append $open . }}{{ end -}}
{{- end -}}
{{- if not $open -}}
{{- include "penstock.checks" . -}}
{{- include "penstock.operationsBootstrap" . -}}
{{- else -}}
{{- $chosen := first $open -}}
{{- range reverse $open -}}
{{- if eq .type "ClusterIP" }}{{ $chosen = . }}{{ end -}}
{{- end -}}
{{- $name := include "penstock.listenerName" (dict "root" . "listener" $chosen) -}}
{{- printf "%s.%s.svc.%s:%d" $name .Release.Namespace .Values.clusterDomain (int $chosen.portBase) -}}
{{- end -}}
{{- end -}}
