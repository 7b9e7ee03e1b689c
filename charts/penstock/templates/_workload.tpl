{{/*
The headless Service and the StatefulSet of one service. Pods are numbered, since a process needs an id of its own among its
kind: the pod's number is PENSTOCK_NODE_ID. Argument, a dict:
root; component (kebab case; the image, the container); service (the Python package); name (of the StatefulSet); key (in the
values); values; replicas; first (the first pod's number); env (list of EnvVar); ports (list of ContainerPort); readiness (path);
preStop (command, or none); graceSeconds; persistence (or none: an emptyDir); rack (bool); secrets (a list of secret, the folder
where it is mounted, and needed: whether pods wait for it; or none).
*/}}
{{- define "penstock.workload" -}}
{{- $root := .root -}}
{{- $labels := dict "root" $root "component" .component -}}
{{- $settings := include "penstock.settings" (dict "root" $root "service" .service "where" .key "own" .values.config) -}}
{{- $zoned := and .rack (eq $root.Values.rack.source "nodeLabel") -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  labels: {{- include "penstock.labels" $labels | nindent 4 }}
data:
  settings.toml: |
    # Made by Helm from config and {{ .key }}.config.
    {{- $settings | nindent 4 }}
  {{- if $zoned }}
  node_zone.py: |
    {{- $root.Files.Get "files/node_zone.py" | nindent 4 }}
  {{- end }}
---
# The pods' names in DNS. RPC goes to the pods' addresses, which they register themselves.
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels: {{- include "penstock.labels" $labels | nindent 4 }}
spec:
  clusterIP: None
  # Processes must meet before any of them can be ready.
  publishNotReadyAddresses: true
  selector: {{- include "penstock.selector" $labels | nindent 4 }}
    penstock/set: {{ .name }}
  ports:
    - {name: rpc, port: 9300, targetPort: rpc, protocol: TCP, appProtocol: tcp}
    - {name: admin, port: 9600, targetPort: admin, protocol: TCP, appProtocol: http}
---
{{- if and $root.Values.rpcTls.enabled $root.Values.rpcTls.certManager.issuerRef.name }}
{{ include "penstock.rpcCertificate" . }}
---
{{- end }}
{{- if and $root.Values.etcd.tls.enabled $root.Values.etcd.tls.certManager.issuerRef.name }}
{{ include "penstock.etcdUserCertificate" (dict "root" $root "component" .component "name" .name "user" (printf "penstock-%s" .service)) }}
---
{{- end }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  labels: {{- include "penstock.labels" $labels | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ .name }}
  # The first pod that starts may need the others to be ready.
  podManagementPolicy: Parallel
  ordinals: {start: {{ .first }}}
  minReadySeconds: 2
  revisionHistoryLimit: 3
  updateStrategy: {type: RollingUpdate}
  selector:
    matchLabels: {{- include "penstock.selector" $labels | nindent 6 }}
      penstock/set: {{ .name }}
  {{- with .persistence }}
  persistentVolumeClaimRetentionPolicy: {{ include "penstock.retention" (dict "root" $root "whenScaled" .whenScaled) }}
  {{- end }}
  template:
    metadata:
      labels: {{- include "penstock.podLabels" (dict "root" $root "component" .component "set" .name "more" .values.podLabels) | nindent 8 }}
      annotations:
        checksum/settings: {{ $settings | sha256sum }}
        {{- with .values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec: {{- include "penstock.merged" (dict "spec" (include "penstock.podSpec" .) "patch" .values.podSpec) | nindent 6 }}
  {{- with .persistence }}
  volumeClaimTemplates:
    - {{ include "penstock.claim" . | nindent 6 | trim }}
  {{- end }}
{{- end -}}

{{/* The spec of a pod of one service, before the values' podSpec. Argument: as for penstock.workload. */}}
{{- define "penstock.podSpec" -}}
{{- $root := .root -}}
{{- $labels := dict "root" $root "component" .component -}}
{{- $zoned := and .rack (eq $root.Values.rack.source "nodeLabel") -}}
{{- $secrets := .secrets | default list -}}
{{- with $root.Values.adminToken.secret -}}
{{- $secrets = append $secrets (dict "secret" . "folder" "/etc/penstock-admin" "needed" true) -}}
{{- end -}}
{{- if $root.Values.rpcTls.enabled -}}
{{- $secrets = append $secrets (dict "secret" (include "penstock.rpcSecret" .name) "folder" "/etc/penstock-rpc-tls" "needed" true) -}}
{{- end -}}
{{- if $root.Values.etcd.tls.enabled -}}
{{- $secrets = append $secrets (dict "secret" (include "penstock.etcdSecret" .name) "folder" "/etc/penstock-etcd-tls" "needed" true) -}}
{{- end -}}
serviceAccountName: {{ include "penstock.fullname" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .graceSeconds }}
securityContext: {{- include "penstock.podSecurity" $root.Values.podSecurity.uid | nindent 2 }}
{{- include "penstock.placement" (dict "root" $root "values" .values "selector" (include "penstock.selector" $labels) "set" .name) | nindent 0 }}
{{- if $zoned }}
initContainers:
  - name: zone
    image: {{ include "penstock.image" (dict "root" $root "service" .component) }}
    imagePullPolicy: {{ include "penstock.pullPolicy" $root }}
    command: [python, /etc/penstock/node_zone.py, /etc/penstock/settings.toml, /run/penstock/settings.toml]
    env:
      - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      - {name: NODE_LABEL, value: {{ $root.Values.rack.label | quote }}}
    securityContext: {{- include "penstock.containerSecurity" . | nindent 6 }}
    resources: {requests: {cpu: 10m, memory: 32Mi}}
    volumeMounts:
      - {name: settings, mountPath: /etc/penstock, readOnly: true}
      - {name: run, mountPath: /run/penstock}
      - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "penstock.image" (dict "root" $root "service" .component) }}
    imagePullPolicy: {{ include "penstock.pullPolicy" $root }}
    command: [python, -m, services.{{ .service }}]
    env:
      - {name: PENSTOCK_NODE_ID, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
      - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
      - {name: PENSTOCK_RPC_TCP, value: "0.0.0.0:9300"}
      # The address and no name: DNS answers with the former address for up to half a minute after a restart.
      - {name: PENSTOCK_RPC_ADVERTISED_HOST, value: $(POD_IP)}
      {{- if $root.Values.rpcTls.enabled }}
      - {name: PENSTOCK_RPC_TLS_CERTIFICATE, value: /etc/penstock-rpc-tls/tls.crt}
      - {name: PENSTOCK_RPC_TLS_KEY, value: /etc/penstock-rpc-tls/tls.key}
      - {name: PENSTOCK_RPC_TLS_CA, value: /etc/penstock-rpc-tls/ca.crt}
      {{- end }}
      - {name: PENSTOCK_ADMIN_HOST, value: 0.0.0.0}
      - {name: PENSTOCK_ADMIN_PORT, value: "9600"}
      {{- if $root.Values.adminToken.secret }}
      - {name: PENSTOCK_ADMIN_TOKEN_FILE, value: /etc/penstock-admin/token}
      {{- end }}
      - {name: PENSTOCK_DATA_DIR, value: /var/lib/penstock/data}
      - {name: PENSTOCK_ETCD, value: {{ include "penstock.etcdEndpoints" $root | quote }}}
      {{- if $root.Values.etcd.tls.enabled }}
      {{- include "penstock.etcdEnv" $root | nindent 6 }}
      {{- end }}
      - {name: PENSTOCK_CONFIG, value: {{ if $zoned }}/run/penstock/settings.toml{{ else }}/etc/penstock/settings.toml{{ end }}}
      {{- if ne .service "storage" }}
      - {name: PENSTOCK_PEERS, value: {{ include "penstock.peers" $root | quote }}}
      {{- end }}
      {{- if and .rack (eq $root.Values.rack.source "podLabel") }}
      - {name: PENSTOCK_RACK, valueFrom: {fieldRef: {fieldPath: "metadata.labels['{{ $root.Values.rack.label }}']"}}}
      {{- end }}
      {{- with .env }}{{ toYaml . | nindent 6 }}{{ end }}
    ports:
      - {name: rpc, containerPort: 9300, protocol: TCP}
      - {name: admin, containerPort: 9600, protocol: TCP}
      {{- with .ports }}{{ toYaml . | nindent 6 }}{{ end }}
    startupProbe:
      httpGet: {path: /healthz, port: admin}
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /healthz, port: admin}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: {{ .readiness }}, port: admin}
      periodSeconds: 3
      timeoutSeconds: 3
      failureThreshold: 2
    {{- with .preStop }}
    lifecycle:
      preStop: {exec: {command: {{ toJson . }}}}
    {{- end }}
    resources: {{- toYaml .values.resources | nindent 6 }}
    securityContext: {{- include "penstock.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: data, mountPath: /var/lib/penstock}
      - {name: settings, mountPath: /etc/penstock, readOnly: true}
      - {name: run, mountPath: /run/penstock}
      - {name: tmp, mountPath: /tmp}
      {{- range $index, $mount := $secrets }}
      - {name: secret-{{ $index }}, mountPath: {{ $mount.folder }}, readOnly: true}
      {{- end }}
volumes:
  - {name: settings, configMap: {name: {{ .name }}}}
  {{- range $index, $mount := $secrets }}
  {{- if $mount.needed }}
  - {name: secret-{{ $index }}, secret: {secretName: {{ $mount.secret }}, defaultMode: 0440}}
  {{- else }}
  # A secret that was removed does not keep a pod from its restart.
  - {name: secret-{{ $index }}, secret: {secretName: {{ $mount.secret }}, defaultMode: 0440, optional: true}}
  {{- end }}
  {{- end }}
  - {name: run, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: tmp, emptyDir: {sizeLimit: 256Mi}}
  {{- if not .persistence }}
  - {name: data, emptyDir: {sizeLimit: 256Mi}}
  {{- end }}
  {{- if $zoned }}
  - name: token
    projected:
      sources:
        - serviceAccountToken: {path: token, expirationSeconds: 3600}
        - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
  {{- end }}
{{- end -}}

{{/* One policy for all volumes of a release: an etcd that outlived the disks would know topics without records. */}}
{{- define "penstock.retention" -}}
{whenScaled: {{ .whenScaled | default "Retain" }}, whenDeleted: {{ .root.Values.storage.persistence.whenDeleted }}}
{{- end -}}

{{- define "penstock.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  {{- with .storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources: {requests: {storage: {{ .size }}}}
{{- end -}}

{{- define "penstock.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "penstock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
A pod's spec with the values' podSpec laid over it: maps key by key; containers, init containers and volumes by name; a container's
env, volumeMounts and ports are added; any other list replaces the chart's. Argument: dict "spec" (YAML) "patch" (a dict).
*/}}
{{- define "penstock.merged" -}}
{{- $spec := fromYaml .spec -}}
{{- $patch := deepCopy (.patch | default dict) -}}
{{- range $kind := list "containers" "initContainers" "volumes" -}}
{{- $merged := get $spec $kind | default list -}}
{{- range $given := get $patch $kind | default list -}}
{{- $next := list -}}
{{- $found := false -}}
{{- range $own := $merged -}}
{{- if eq $own.name $given.name -}}
{{- $found = true -}}
{{- $over := deepCopy $given -}}
{{- range $inner := list "env" "volumeMounts" "ports" -}}
{{- if and (hasKey $own $inner) (hasKey $over $inner) -}}
{{- $_ := set $over $inner (concat (get $own $inner) (get $over $inner)) -}}
{{- end -}}
{{- end -}}
{{- $next = append $next (mergeOverwrite (deepCopy $own) $over) -}}
{{- else -}}
{{- $next = append $next $own -}}
{{- end -}}
{{- end -}}
{{- if not $found }}{{ $next = append $next $given }}{{ end -}}
{{- $merged = $next -}}
{{- end -}}
{{- if $merged }}{{ $_ := set $patch $kind $merged }}{{ end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $spec $patch) -}}
{{- end -}}

{{/* Where pods run: over zones first, then over hosts. Argument: dict "root" "values" "selector" "set". */}}
{{- define "penstock.placement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
topologySpreadConstraints:
  {{- $root := .root }}
  {{- $selector := .selector }}
  {{- $set := .set }}
  {{- $values := .values }}
  {{- range list .root.Values.rack.label "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    {{- if eq . "kubernetes.io/hostname" }}
    whenUnsatisfiable: {{ ternary "DoNotSchedule" $values.hostSpread (eq $root.Values.spread.whenUnsatisfiable "DoNotSchedule") }}
    # A host that the pods may not use, such as one that is drained, is none where one is missing.
    nodeTaintsPolicy: Honor
    {{- else }}
    whenUnsatisfiable: {{ $root.Values.spread.whenUnsatisfiable }}
    {{- end }}
    labelSelector:
      matchLabels: {{- $selector | nindent 8 }}
        penstock/set: {{ $set }}
  {{- end }}
{{- end -}}
