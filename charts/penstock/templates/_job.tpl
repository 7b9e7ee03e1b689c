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
    command: {{ toJson (concat (list "python" "-m" "services.operations") .arguments) }}
    securityContext: {{- include "penstock.containerSecurity" . | nindent 6 }}
    resources: {requests: {cpu: 50m, memory: 64Mi}}
{{- end -}}
