{{/* What the schema cannot say. Each check stops the install with one sentence. */}}
{{- define "penstock.checks" -}}
{{- $values := .Values -}}
{{- include "penstock.nameChecks" . -}}
{{- include "penstock.imageChecks" . -}}
{{- if gt (int $values.storage.replicas) (int $values.storage.maxReplicas) -}}
{{- fail (printf "storage.replicas is %d, more than storage.maxReplicas, which is %d: raise storage.maxReplicas" (int $values.storage.replicas) (int $values.storage.maxReplicas)) -}}
{{- end -}}
{{- $factor := int (get $values.controller.config "default_replication_factor" | default (get $values.config "default_replication_factor") | default 0) -}}
{{- if gt $factor (int $values.storage.replicas) -}}
{{- fail (printf "default_replication_factor is %d, more than storage.replicas, which is %d: a topic's replicas are on different storage nodes" $factor (int $values.storage.replicas)) -}}
{{- end -}}
{{- if and $values.etcd.enabled $values.etcd.external.endpoints -}}
{{- fail "etcd.enabled is true, and etcd.external.endpoints is given: choose one; with an etcd of yours etcd.enabled is false" -}}
{{- end -}}
{{- if not (or $values.etcd.enabled $values.etcd.external.endpoints) -}}
{{- fail "etcd.enabled is false, and etcd.external.endpoints is empty: give host:port of each member of your etcd" -}}
{{- end -}}
{{- if and $values.metrics.podMonitor.enabled $values.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podMonitor.enabled and metrics.serviceMonitor.enabled are true: choose one, or each pod is scraped twice" -}}
{{- end -}}
{{- include "penstock.listenerChecks" . -}}
{{- include "penstock.protocolChecks" . -}}
{{- include "penstock.authorizerChecks" . -}}
{{- include "penstock.rpcTlsChecks" . -}}
{{- include "penstock.etcdTlsChecks" . -}}
{{- include "penstock.networkPolicyChecks" . -}}
{{- range $role := list "storage" "controller" "groupCoordinator" "transactionCoordinator" "quotaManager" "gateway" -}}
{{- range $container := (index $values $role).podSpec.containers | default list -}}
{{- include "penstock.variableChecks" (dict "role" $role "variables" $container.env) -}}
{{- end -}}
{{- end -}}
{{- include "penstock.replacedValueChecks" . -}}
{{- include "penstock.commonConfigChecks" . -}}
{{- include "penstock.runningChecks" . -}}
{{- end -}}

{{/*
The name of a StatefulSet and the revision of its pods, `-` and 10 characters, are together a label of 63. So are the name of a
CronJob and that of its runs. `-transaction-coordinator` has 24 characters, as `-` and the longest listener's name and `-gateway`.
*/}}
{{- define "penstock.nameChecks" -}}
{{- $fullname := include "penstock.fullname" . -}}
{{- if gt (len $fullname) 28 -}}
{{- fail (printf "the objects of this release would be named %s-…, which has %d characters; expected 28 at most, or Kubernetes makes no pods of %s-transaction-coordinator: choose a shorter name of the release, or give fullnameOverride" $fullname (len $fullname) $fullname) -}}
{{- end -}}
{{- range $name, $job := .Values.pipeline.jobs -}}
{{- $full := printf "%s-pipeline-%s" $fullname $name -}}
{{- if and (eq $job.run "schedule") (gt (len $full) 52) -}}
{{- fail (printf "pipeline.jobs.%s: the CronJob %s has %d characters; expected 52 at most: choose a shorter name of the job, or give fullnameOverride" $name $full (len $full)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A kind among the versions tells a cluster from `helm template` and `helm lint`, which know groups only. */}}
{{- define "penstock.imageChecks" -}}
{{- if and .Release.IsInstall (.Capabilities.APIVersions.Has "apps/v1/StatefulSet") (eq (include "penstock.pullPolicy" .) "Never") (not .Values.image.pullPolicy) -}}
{{- fail (printf "image.repository is %s, which names no registry, and nobody publishes images of that name: build them (docs/operate/kubernetes.md), push them to a registry of yours and give image.repository=REGISTRY/penstock; or load them into each node and give image.pullPolicy=Never" .Values.image.repository) -}}
{{- end -}}
{{- end -}}

{{- define "penstock.listenerChecks" -}}
{{- $values := .Values -}}
{{- $names := dict -}}
{{- range $index, $listener := $values.listeners -}}
{{- $where := printf "listeners[%d] (%s)" $index $listener.name -}}
{{- if hasKey $names (lower $listener.name) -}}
{{- fail (printf "%s: there is another listener of that name; expected names that differ" $where) -}}
{{- end -}}
{{- $_ := set $names (lower $listener.name) true -}}
{{- if has (lower $listener.name) (list "storage" "controller" "etcd" "group-coordinator" "transaction-coordinator" "quota-manager") -}}
{{- fail (printf "%s: that is the name of another Service of this chart; expected another name" $where) -}}
{{- end -}}
{{- $last := add (int $listener.portBase) (int $values.storage.maxReplicas) -}}
{{- range $taken, $what := dict "9300" "RPC" "9600" "the admin port" -}}
{{- if and (le (int $listener.portBase) (int $taken)) (ge $last (int64 $taken)) -}}
{{- fail (printf "%s: ports %d to %d (portBase + storage.maxReplicas) contain %s, which is %s: choose another portBase" $where (int $listener.portBase) $last $taken $what) -}}
{{- end -}}
{{- end -}}
{{- if gt $last 65535 -}}
{{- fail (printf "%s: portBase + storage.maxReplicas is %d; expected 65535 at most" $where $last) -}}
{{- end -}}
{{- if eq $listener.type "NodePort" -}}
{{- if not $listener.nodePortBase -}}
{{- fail (printf "%s: a NodePort listener needs nodePortBase, from 30000 on" $where) -}}
{{- end -}}
{{- $lastNodePort := add (int $listener.nodePortBase) (int $values.storage.maxReplicas) -}}
{{- if or (lt (int $listener.nodePortBase) 30000) (gt $lastNodePort 32767) -}}
{{- fail (printf "%s: node ports %d to %d (nodePortBase + storage.maxReplicas); expected ports within 30000 to 32767" $where (int $listener.nodePortBase) $lastNodePort) -}}
{{- end -}}
{{- range $other := slice $values.listeners 0 $index -}}
{{- if $other.nodePortBase -}}
{{- if and (le (int $other.nodePortBase) $lastNodePort) (le (int $listener.nodePortBase) (add (int $other.nodePortBase) (int $values.storage.maxReplicas))) -}}
{{- fail (printf "%s: node ports %d to %d overlap with those of listener %s: choose another nodePortBase" $where (int $listener.nodePortBase) $lastNodePort $other.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if $listener.nodePortBase -}}
{{- fail (printf "%s: nodePortBase is for type NodePort; the type is %s" $where $listener.type) -}}
{{- end -}}
{{- if ne $listener.type "LoadBalancer" -}}
{{- range $name := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if get $listener $name -}}
{{- fail (printf "%s: %s is for type LoadBalancer; the type is %s" $where $name $listener.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $listener.type "ClusterIP") $listener.externalTrafficPolicy -}}
{{- fail (printf "%s: externalTrafficPolicy is for types LoadBalancer and NodePort; the type is ClusterIP" $where) -}}
{{- end -}}
{{- if and (ne $listener.type "ClusterIP") (not $listener.advertisedHost) -}}
{{- fail (printf "%s: a %s listener needs advertisedHost, the name or address that clients connect to" $where $listener.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.networkPolicyChecks" -}}
{{- if not .Values.networkPolicy.enabled -}}
{{- if .Values.networkPolicy.metricsFrom -}}
{{- fail "networkPolicy.enabled is false, and networkPolicy.metricsFrom is given: nothing would keep others off; expected one of them alone" -}}
{{- end -}}
{{- range $index, $listener := .Values.listeners -}}
{{- if $listener.allowFrom -}}
{{- fail (printf "networkPolicy.enabled is false, and listeners[%d] (%s) has allowFrom: nothing would keep others off; expected one of them alone" $index $listener.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.variableChecks" -}}
{{- $role := .role -}}
{{- range .variables -}}
{{- if hasPrefix "PENSTOCK_" .name -}}
{{- fail (printf "%s.podSpec has %s: give settings by %s.config, as %s" $role .name $role (trimPrefix "PENSTOCK_" .name | lower)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Values that podSpec has replaced. Empty ones come with --reuse-values from an older chart's defaults. */}}
{{- define "penstock.replacedValueChecks" -}}
{{- $values := .Values -}}
{{- range $role := list "storage" "controller" "groupCoordinator" "transactionCoordinator" "gateway" "etcd" -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" -}}
{{- if get (index $values $role) $name -}}
{{- fail (printf "%s.%s is no value of this chart any more: give %s.podSpec.%s" $role $name $role $name) -}}
{{- end -}}
{{- end -}}
{{- if get (index $values $role) "extraEnv" -}}
{{- $container := $role | kebabcase -}}
{{- fail (printf "%s.extraEnv is no value of this chart any more: give %s.podSpec.containers[0], with the name %s and the variables as env" $role $role $container) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A setting in `config` must be one of some service. */}}
{{- define "penstock.commonConfigChecks" -}}
{{- $known := dict -}}
{{- range $service, $settings := .Files.Get "files/settings.yaml" | fromYaml -}}
{{- $known = merge $known $settings -}}
{{- end -}}
{{- range $name, $value := .Values.config -}}
{{- if not (hasKey $known $name) -}}
{{- fail (printf "config.%s: no service has such a setting, or the chart sets it itself; expected one of %s" $name (keys $known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
