{{/* What Kubernetes lets nobody change once it runs, and what would lose the cluster. */}}

{{/*
A StatefulSet of this release as it runs, as JSON: `{}` before the install, and where Helm renders without a cluster.
Argument: dict "root" "name".
*/}}
{{- define "penstock.running" -}}
{{- lookup "apps/v1" "StatefulSet" .root.Release.Namespace .name | toJson -}}
{{- end -}}

{{- define "penstock.runningChecks" -}}
{{- $root := . -}}
{{- range $key := list "storage" "controller" "etcd" -}}
{{- $name := printf "%s-%s" (include "penstock.fullname" $root) $key -}}
{{- $running := include "penstock.running" (dict "root" $root "name" $name) | fromJson -}}
{{- if $running -}}
{{- $values := index $root.Values $key -}}
{{- if eq $key "etcd" -}}
{{- include "penstock.etcdRunningChecks" (dict "values" $values "replicas" (int $running.spec.replicas)) -}}
{{- end -}}
{{- $claim := (first $running.spec.volumeClaimTemplates).spec -}}
{{- $size := $claim.resources.requests.storage -}}
{{- if ne (include "penstock.bytes" $size) (include "penstock.bytes" $values.persistence.size) -}}
{{- fail (printf "%s.persistence.size is %s, and the volumes of %s have %s: Kubernetes changes no volumes by this; docs/operate/kubernetes.md says how they grow" $key $values.persistence.size $name $size) -}}
{{- end -}}
{{- $class := $claim.storageClassName | default "" -}}
{{- if ne $class $values.persistence.storageClass -}}
{{- fail (printf "%s.persistence.storageClass is %q, and the volumes of %s have %q: Kubernetes moves no volume to another class" $key $values.persistence.storageClass $name $class) -}}
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
