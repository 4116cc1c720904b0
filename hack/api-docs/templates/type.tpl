{{- define "type" -}}
{{- if markdownShouldRenderType . }}
## {{ .Name }}
{{ if .Doc }}
{{ template "text" .Doc }}
{{ end }}
{{- if .IsAlias }}
Type: {{ markdownRenderTypeLink .UnderlyingType }}
{{ end }}
{{- if .References }}
In:{{ range $i, $type := .SortedReferences }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $type }}{{ end }}
{{ end }}
{{- with .Validation }}
{{ template "limits" . }}
{{ end }}
{{- if .Members }}
| field | type | meaning | default | limits |
| --- | --- | --- | --- | --- |
{{- with .GVK }}
| `apiVersion` | string | `{{ .Group }}/{{ .Version }}` | | |
| `kind` | string | `{{ .Kind }}` | | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ template "cell" .Doc }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "limits" .Validation }} |
{{- end }}
{{ end }}
{{- with .EnumValues }}
| value | meaning |
| --- | --- |
{{- range . }}
| `{{ .Name }}` | {{ template "cell" .Doc }} |
{{- end }}
{{ end }}
{{- end -}}
{{- end -}}

{{- define "text" }}{{ . | trim | replace "<" "&lt;" }}{{ end -}}
{{- define "cell" }}{{ . | trim | replace "<" "&lt;" | replace "|" "\\|" | replace "\n\n" "<br>" | replace "\n" " " }}{{ end -}}

{{- define "limits" }}
{{- $first := true }}
{{- range . }}
{{- if and (ne . "Optional: {}") (ne . "Schemaless: {}") }}
{{- if not $first }}; {{ end }}{{ . | replace ": {}" "" | replace "|" "\\|" }}{{ $first = false }}
{{- end }}
{{- end }}
{{- end -}}
