{{/* What Kubernetes lets nobody change once it runs, and what would lose the cluster. */}}

{{/*
The StatefulSets of this release as they run, by name, as JSON, whatever the values call them: `{}` before the install, and where
Helm renders without a cluster. Argument: root.
*/}}
{{- define "penstock.runningSets" -}}
{{- $sets := dict -}}
{{- range (lookup "apps/v1" "StatefulSet" .Release.Namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (get $labels "app.kubernetes.io/name") "penstock") (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) -}}
{{- $_ := set $sets .metadata.name . -}}
{{- end -}}
{{- end -}}
{{- toJson $sets -}}
{{- end -}}

{{- define "penstock.runningChecks" -}}
{{- $root := . -}}
{{- $sets := include "penstock.runningSets" . | fromJson -}}
{{- range $name, $running := $sets -}}
{{- $component := get $running.metadata.labels "app.kubernetes.io/component" -}}
{{- $expected := printf "%s-%s" (include "penstock.fullname" $root) $component -}}
{{- if and (ne $component "gateway") (ne $name $expected) -}}
{{- fail (printf "the release runs %s, and these values name it %s: the names of a release are fixed when it is installed, since its volumes bear them; give fullnameOverride as it was, or --reuse-values" $name $expected) -}}
{{- end -}}
{{- if has $component (list "storage" "controller" "etcd") -}}
{{- include "penstock.volumeChecks" (dict "running" $running "name" $name "key" $component "values" (index $root.Values $component)) -}}
{{- end -}}
{{- if eq $component "storage" -}}
{{- include "penstock.rpcTlsRunningChecks" (dict "root" $root "running" $running) -}}
{{- end -}}
{{- if eq $component "etcd" -}}
{{- include "penstock.etcdRunningChecks" (dict "values" $root.Values.etcd "replicas" (int $running.spec.replicas)) -}}
{{- $tls := has "--client-cert-auth" ((first $running.spec.template.spec.containers).command | default list) -}}
{{- if ne $tls $root.Values.etcd.tls.enabled -}}
{{- fail (printf "etcd.tls.enabled is %t, and etcd of this release runs with %t: members with TLS and members without do not understand each other; keep it, or uninstall the release, which keeps its volumes, and install it anew" $root.Values.etcd.tls.enabled $tls) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $component "controller") (not (hasKey $sets (printf "%s-etcd" (include "penstock.fullname" $root)))) -}}
{{- include "penstock.otherEtcdChecks" (dict "root" $root "running" $running) -}}
{{- end -}}
{{- end -}}
{{- include "penstock.gatewayChecks" (dict "root" $root "sets" $sets) -}}
{{- end -}}

{{- define "penstock.volumeChecks" -}}
{{- $claim := (first .running.spec.volumeClaimTemplates).spec -}}
{{- $size := $claim.resources.requests.storage -}}
{{- if ne (include "penstock.bytes" $size) (include "penstock.bytes" .values.persistence.size) -}}
{{- fail (printf "%s.persistence.size is %s, and the volumes of %s have %s: Kubernetes changes no volumes by this; docs/operate/kubernetes.md says how they grow" .key .values.persistence.size .name $size) -}}
{{- end -}}
{{- $class := $claim.storageClassName | default "" -}}
{{- if ne $class .values.persistence.storageClass -}}
{{- fail (printf "%s.persistence.storageClass is %q, and the volumes of %s have %q: Kubernetes moves no volume to another class" .key .values.persistence.storageClass .name $class) -}}
{{- end -}}
{{- end -}}

{{/* An etcd of the user's: its addresses may change one by one, but another etcd knows no topic. */}}
{{- define "penstock.otherEtcdChecks" -}}
{{- $given := splitList "," (include "penstock.etcdEndpoints" .root) -}}
{{- $runs := "" -}}
{{- range (first .running.spec.template.spec.containers).env -}}
{{- if eq .name "PENSTOCK_ETCD" }}{{ $runs = .value }}{{ end -}}
{{- end -}}
{{- $common := false -}}
{{- range splitList "," $runs -}}
{{- if has . $given }}{{ $common = true }}{{ end -}}
{{- end -}}
{{- if not $common -}}
{{- fail (printf "the metadata of this release is in the etcd at %s, and these values name the one at %s: give etcd.enabled and etcd.external.endpoints as they were; one of the endpoints must stay in each upgrade" $runs (join "," $given)) -}}
{{- end -}}
{{- end -}}

{{/* A port with TLS serves nobody without it, so pods of both kinds could not work together while an upgrade goes on. */}}
{{- define "penstock.rpcTlsRunningChecks" -}}
{{- $runs := false -}}
{{- range (first .running.spec.template.spec.containers).env -}}
{{- if eq .name "PENSTOCK_RPC_TLS_CERTIFICATE" }}{{ $runs = true }}{{ end -}}
{{- end -}}
{{- if ne $runs .root.Values.rpcTls.enabled -}}
{{- fail (printf "rpcTls.enabled is %t, and the pods of this release run with %t: pods with TLS and pods without do not understand each other; keep it, or uninstall the release, which keeps its volumes, and install it anew" .root.Values.rpcTls.enabled $runs) -}}
{{- end -}}
{{- end -}}

{{/* A listener's position decides the ids of its gateways. */}}
{{- define "penstock.gatewayChecks" -}}
{{- $root := .root -}}
{{- $sets := .sets -}}
{{- range $position, $listener := $root.Values.listeners -}}
{{- $running := get $sets (printf "%s-gateway" (include "penstock.listenerName" (dict "root" $root "listener" $listener))) -}}
{{- $first := add1 (mul 100 $position) -}}
{{- if $running -}}
{{- if ne (int $running.spec.ordinals.start) (int $first) -}}
{{- fail (printf "listeners[%d] (%s): its gateways run with the ids from %d on, and at this position they would have those from %d on: add listeners at the end, and remove only the last" $position $listener.name (int $running.spec.ordinals.start) (int $first)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.etcdRunningChecks" -}}
{{- if not .values.enabled -}}
{{- fail "etcd.enabled is false, and the metadata of this release is in the etcd that it runs: expected true" -}}
{{- end -}}
{{- if ne (int .values.replicas) .replicas -}}
{{- fail (printf "etcd.replicas is %d, and %d members run: their number is fixed when the release is installed" (int .values.replicas) .replicas) -}}
{{- end -}}
{{- end -}}

{{/* The bytes of a size. Kubernetes writes it in its own way: 1Gi for 1024Mi. */}}
{{- define "penstock.bytes" -}}
{{- $unit := regexFind "[KMGTP]i$" . -}}
{{- $bytes := trimSuffix $unit . | int64 -}}
{{- range untilStep 0 (add1 (index (dict "" -1 "Ki" 0 "Mi" 1 "Gi" 2 "Ti" 3 "Pi" 4) $unit) | int) 1 -}}
{{- $bytes = mul $bytes 1024 -}}
{{- end -}}
{{- $bytes -}}
{{- end -}}
