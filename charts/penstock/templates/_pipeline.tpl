{{/*
Pods of the pipeline on Spark. Argument of each: dict "root" "name" (in pipeline.jobs) "fullname" "job" "distributed" "labels".
*/}}

{{/* The job file: where the cluster and Spark are is known here, the lake and the jobs are the user's. */}}
{{- define "penstock.jobFile" -}}
[cluster]
bootstrap_servers = {{ include "penstock.bootstrap" .root | quote }}
{{- range $key, $value := .job.clusterOptions }}
options.{{ $key | quote }} = {{ $value | toString | quote }}
{{- end }}

[spark]
master = {{ ternary "k8s://https://kubernetes.default.svc" "local[*]" .distributed | quote }}
{{- range $key, $value := merge (dict) (.job.sparkConfig | default dict) (include "penstock.sparkConfig" . | fromYaml) }}
config.{{ $key | quote }} = {{ $value | toString | quote }}
{{- end }}

[telemetry]
metrics_host = "0.0.0.0"
metrics_port = 9600
{{- with .job.otlpEndpoint }}
otlp_endpoint = {{ . | quote }}
{{- end }}

{{ .job.file | trim }}
{{ end -}}

{{/* What only the chart knows. `${env:…}` is Spark's own: the driver's pod owns its executors. */}}
{{- define "penstock.sparkConfig" -}}
spark.local.dir: /tmp
{{- if .distributed }}
spark.executor.instances: {{ int .job.executors }}
spark.kubernetes.namespace: {{ .root.Release.Namespace }}
spark.kubernetes.container.image: {{ include "penstock.image" (dict "root" .root "service" "pipeline") }}
spark.kubernetes.container.image.pullPolicy: {{ include "penstock.pullPolicy" .root }}
spark.kubernetes.driver.pod.name: ${env:POD_NAME}
spark.kubernetes.executor.podTemplateFile: /etc/penstock/executor.yaml
spark.kubernetes.executor.podNamePrefix: {{ .fullname }}
{{- end }}
{{- end -}}

{{/* Executors bear no token, and are as confined as the driver. */}}
{{- define "penstock.executorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "penstock.selector" (dict "root" .root "component" (printf "executor-%s" .name)) | nindent 4 }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext: {{- include "penstock.podSecurity" .root.Values.podSecurity.uid | nindent 4 }}
  {{- include "penstock.pipelinePlacement" . | nindent 2 }}
  containers:
    - name: executor
      securityContext: {{- include "penstock.containerSecurity" . | nindent 8 }}
      {{- with .job.extraEnv }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- with .job.lakeClaim }}
        - {name: lake, mountPath: /lake}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {}}
    {{- with .job.lakeClaim }}
    - {name: lake, persistentVolumeClaim: {claimName: {{ . }}}}
    {{- end }}
{{- end -}}

{{/* The driver. More arguments: "restart". */}}
{{- define "penstock.pipelinePod" -}}
metadata:
  labels: {{- include "penstock.selector" .labels | nindent 4 }}
    {{- with .root.Values.commonLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/jobs: {{ include "penstock.jobFile" . | sha256sum }}
    {{- with .job.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ ternary .fullname (include "penstock.fullname" .root) .distributed }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: {{ .restart }}
  terminationGracePeriodSeconds: 60
  securityContext: {{- include "penstock.podSecurity" .root.Values.podSecurity.uid | nindent 4 }}
  {{- include "penstock.pipelinePlacement" . | nindent 2 }}
  containers:
    - name: driver
      image: {{ include "penstock.image" (dict "root" .root "service" "pipeline") }}
      imagePullPolicy: {{ include "penstock.pullPolicy" .root }}
      command: {{ toJson (concat (list "python" "-m" "services.pipeline" "run" "/etc/penstock/jobs.toml") (.job.jobs | default list)) }}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        # Executors connect to the driver by its address.
        - {name: SPARK_LOCAL_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- with .job.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: admin, containerPort: 9600, protocol: TCP}
      resources: {{- toYaml (.job.resources | default (dict "requests" (dict "cpu" "1" "memory" "2Gi"))) | nindent 8 }}
      securityContext: {{- include "penstock.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: jobs, mountPath: /etc/penstock, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with .job.lakeClaim }}
        - {name: lake, mountPath: /lake}
        {{- end }}
        {{- if .distributed }}
        - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
        {{- end }}
  volumes:
    - {name: jobs, configMap: {name: {{ .fullname }}}}
    - {name: tmp, emptyDir: {}}
    {{- with .job.lakeClaim }}
    - {name: lake, persistentVolumeClaim: {claimName: {{ . }}}}
    {{- end }}
    {{- if .distributed }}
    - name: token
      projected:
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3600}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
    {{- end }}
{{- end -}}

{{- define "penstock.pipelinePlacement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .job.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .job.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
