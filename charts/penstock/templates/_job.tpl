{{/* A pod that runs one program of services.operations. Argument: dict "root" "name" "arguments" (list). */}}
{{- define "penstock.operation" -}}
serviceAccountName: {{ .serviceAccount }}
automountServiceAccountToken: false
enableServiceLinks: false
restartPolicy: Never
securityContext: {{- include "penstock.podSecurity" .root.Values.podSecurity.uid | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
containers:
  - name: {{ .name }}
    # The storage image has what record batches need.
    image: {{ include "penstock.image" (dict "root" .root "service" "storage") }}
    imagePullPolicy: {{ include "penstock.pullPolicy" .root }}
    command: {{ toJson (concat (list "python" "-m" "services.operations") .arguments (include "penstock.operationsLogin" .root | fromYamlArray)) }}
    securityContext: {{- include "penstock.containerSecurity" . | nindent 6 }}
    resources: {requests: {cpu: 50m, memory: 64Mi}}
    {{- if .root.Values.operations.clientSecret }}
    volumeMounts:
      - {name: client, mountPath: /etc/penstock-client, readOnly: true}
      - {name: listener, mountPath: /etc/penstock-listener, readOnly: true}
volumes:
  - {name: client, secret: {secretName: {{ .root.Values.operations.clientSecret }}, defaultMode: 0440}}
  # Who vouches for the listener, where its Secret says so: its key is not for these pods.
  - {name: listener, secret: {secretName: {{ include "penstock.listenerSecret" (dict "root" .root "listener" (include "penstock.operationsListener" .root | fromYaml)) }}, defaultMode: 0440, optional: true, items: [{key: ca.crt, path: ca.crt}]}}
    {{- end }}
{{- end -}}

{{/* The listener of the chart's jobs, as YAML. Argument: root. */}}
{{- define "penstock.operationsListener" -}}
{{- range .Values.listeners -}}
{{- if eq .name $.Values.operations.listener }}{{ toYaml . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The arguments by which the chart's jobs log in, as a list. Argument: root. */}}
{{- define "penstock.operationsLogin" -}}
{{- if .Values.operations.clientSecret -}}
["--command-config", "/etc/penstock-client/client.properties"]
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/*
Where the chart's jobs reach the cluster. By a listener of their choice, as other clients do: its certificate names that address.
Argument: root.
*/}}
{{- define "penstock.operationsBootstrap" -}}
{{- $listener := include "penstock.operationsListener" . | fromYaml -}}
{{- if or (not $listener) (eq ($listener.protocol | default "PLAINTEXT") "PLAINTEXT") -}}
{{- include "penstock.bootstrap" . -}}
{{- else -}}
{{- $of := dict "root" . "listener" $listener -}}
{{- printf "%s:%s" (include "penstock.listenerHost" $of) (include "penstock.listenerPort" $of) -}}
{{- end -}}
{{- end -}}
