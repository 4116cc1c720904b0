{{- define "gvDetails" -}}
# {{ .GroupVersionString }}

<!-- Written by `make generate` from the types in api/. Do not edit. -->

{{ trim .Doc }}

Kinds:{{ range $i, $kind := .SortedKinds }}{{ if $i }},{{ end }} {{ $.TypeForKind $kind | markdownRenderTypeLink }}{{ end }}
{{ range .SortedTypes }}{{ template "type" . }}{{ end }}
{{- end -}}
