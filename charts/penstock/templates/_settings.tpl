{{/* The TOML file of one service. Argument: dict "root" "service" (as in files/settings.yaml) "where" (its key in the values) "own" (its config). */}}
{{- define "penstock.settings" -}}
{{- $known := index (.root.Files.Get "files/settings.yaml" | fromYaml) .service -}}
{{- $where := .where -}}
{{- range $name, $value := .own -}}
{{- if not (hasKey $known $name) -}}
{{- fail (printf "%s.config.%s: there is no such setting, or the chart sets it itself; expected one of %s" $where $name (keys $known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- $common := dict -}}
{{- range $name, $value := .root.Values.config -}}
{{- if hasKey $known $name -}}{{- $_ := set $common $name $value -}}{{- end -}}
{{- end -}}
{{- $given := merge (deepCopy .own) $common -}}
{{- range $name := keys $given | sortAlpha }}
{{ $name }} = {{ include "penstock.tomlValue" (dict "value" (get $given $name) "type" (get $known $name) "where" (printf "%s.config.%s" $where $name)) }}
{{- end }}
{{- end -}}

{{- define "penstock.tomlValue" -}}
{{- /* --set makes a text of 1.5. */}}
{{- $number := regexMatch "^-?[0-9]+([.][0-9]+)?(e[+][0-9]+)?$" (toString .value) -}}
{{- if eq (toString .type) "list" -}}
{{- if not (kindIs "slice" .value) }}{{ fail (printf "%s is %v; expected a list" .where .value) }}{{ end -}}
{{- $items := list -}}
{{- range .value }}{{ $items = append $items (toString . | quote) }}{{ end -}}
[{{ join ", " $items }}]
{{- else if eq (toString .type) "text" -}}
{{- toString .value | quote -}}
{{- else if kindIs "slice" .type -}}
{{- if not (has .value .type) }}{{ fail (printf "%s is %v; expected one of %s" .where .value (join ", " .type)) }}{{ end -}}
{{ quote .value }}
{{- else if not $number -}}
{{- fail (printf "%s is %v; expected a number" .where .value) -}}
{{- else if lt (float64 .value) 0.0 -}}
{{- fail (printf "%s is %v; expected 0 or more" .where .value) -}}
{{- else if eq .type "integer" -}}
{{- if ne (float64 .value) (float64 (int64 .value)) }}{{ fail (printf "%s is %v; expected a whole number" .where .value) }}{{ end -}}
{{ int64 .value }}
{{- else -}}
{{ printf "%f" (float64 .value) }}
{{- end -}}
{{- end -}}
