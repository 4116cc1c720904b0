{{/* What is known of the components: how their objects are named, and whether they are enabled. */}}
{{- define "pdo.components" -}}
elasticscaler:
  enabled: {{ index .Values "elastic-scaler" "enabled" }}
  title: elastic-scaler
  webhook: elasticscaler.elasticscaler.io
  crds: [elasticscaler.io_elasticscalers]
resourcescalinggroup:
  enabled: {{ .Values.resourcescalinggroup.enabled }}
  title: resourcescalinggroup
  webhook: resourcescalinggroup.autoscaling.openfuyao.com
  crds: [autoscaling.openfuyao.com_resourcescalinggroups]
tidal:
  enabled: {{ .Values.tidal.enabled }}
  title: tidal
  webhook: tidal.tidal.io
  crds: [tidal.io_tidals]
autoscalerpolicy:
  enabled: {{ .Values.ome.autoscalerPolicy.enabled }}
  title: autoscalerpolicy
  webhook: autoscalerpolicy.ome.io
  crds: [ome.io_autoscalerpolicies, ome.io_inferenceservices, ome.io_servingruntimes, ome.io_clusterservingruntimes, ome.io_basemodels, ome.io_clusterbasemodels]
{{- end }}

{{- define "pdo.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: pd-orchestrator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The labels of one component's objects; takes a dict of root and component. */}}
{{- define "pdo.componentLabels" -}}
{{ include "pdo.labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "pdo.selector" -}}
app.kubernetes.io/name: pd-orchestrator
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "pdo.image" -}}
{{- $i := .Values.image -}}
{{- if $i.digest -}}
{{ $i.repository }}@{{ $i.digest }}
{{- else -}}
{{ $i.repository }}:{{ $i.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "pdo.prometheusAddress" -}}
{{ .Values.resourcescalinggroup.prometheus.url | default .Values.prometheus.address }}
{{- end }}

{{/* The documents of a file below files/, as a list under "items". */}}
{{- define "pdo.documents" -}}
items:
{{- range (splitList "\n---\n" (printf "\n%s" (.root.Files.Get .file))) }}
{{- if (fromYaml .) }}
- {{ toJson (fromYaml .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* A Role or ClusterRole and its binding. */}}
{{- define "pdo.grant" }}
{{- if .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- .labels | nindent 4 }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- .labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
{{ toYaml .account }}
{{- end }}
{{- end }}

{{/* The part of a rule about what lies in no namespace, or with "inNamespaces" the other part, as one JSON object; nothing where there
is no such part. Takes a dict of rule and inNamespaces. */}}
{{- define "pdo.rulePart" -}}
{{- $groups := list "admissionregistration.k8s.io" "apiextensions.k8s.io" "apiregistration.k8s.io" "authentication.k8s.io" "authorization.k8s.io" -}}
{{- $resources := list -}}
{{- range .rule.resources }}
{{- $clustered := or (has (index $.rule.apiGroups 0) $groups) (hasPrefix "cluster" .) }}
{{- if ne $clustered $.inNamespaces }}
{{- $resources = append $resources . }}
{{- end }}
{{- end }}
{{- if $resources }}
{{- merge (dict "resources" $resources) .rule | toJson }}
{{- end }}
{{- end }}

{{/* The samples by the components that act on them, and whether the values want them. */}}
{{- define "pdo.samples" -}}
{{- $e := index .Values "elastic-scaler" }}
{{- $r := .Values.resourcescalinggroup }}
elasticscaler:
  wanted: {{ and $e.enabled $e.elasticScaler.enabled }}
  apiVersion: elasticscaler.io/v1alpha1
  kind: ElasticScaler
  name: {{ $e.name | quote }}
resourcescalinggroup:
  wanted: {{ and $r.enabled $r.instanceConfig.enabled }}
  apiVersion: autoscaling.openfuyao.com/v1alpha1
  kind: ResourceScalingGroup
  name: {{ $r.instanceConfig.name | quote }}
{{- end }}

{{/* "yes" where the sample of a component is wanted and can be made, or is there; takes a dict of root and component. Without a cluster to
look at, as in `helm template`, only its kind has to be known (--api-versions). */}}
{{- define "pdo.sampleFits" -}}
{{- $sample := index (include "pdo.samples" .root | fromYaml) .component }}
{{- if and $sample.wanted (.root.Capabilities.APIVersions.Has (printf "%s/%s" $sample.apiVersion $sample.kind)) }}
{{- $namespace := .root.Values.namespace }}
{{- $offline := not (lookup "v1" "Namespace" "" "default") }}
{{- $there := lookup $sample.apiVersion $sample.kind $namespace $sample.name }}
{{- $deployment := lookup "apps/v1" "Deployment" $namespace (printf "pd-orchestrator-%s" .component) | default dict }}
{{- if or $offline $there (gt (int (dig "status" "readyReplicas" 0 $deployment)) 0) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* The manager's configuration file; takes a dict of root and component. */}}
{{- define "pdo.config" -}}
{{- $v := .root.Values -}}
apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
namespace: {{ $v.namespace }}
{{- with $v.watchNamespaces }}
watchNamespaces: {{ toJson . }}
{{- end }}
{{- with $v.crossNamespace }}
crossNamespace: {{ . }}
{{- end }}
leaderElection:
  enabled: {{ $v.leaderElection }}
  namespace: {{ $v.namespace }}
health:
  bindAddress: {{ printf ":%v" $v.ports.health | quote }}
metrics:
  bindAddress: {{ printf ":%v" $v.ports.metrics | quote }}
log: {{ toJson $v.log }}
client: {{ toJson $v.client }}
concurrentReconciles: {{ $v.concurrentReconciles }}
prometheus:
  address: {{ include "pdo.prometheusAddress" .root | quote }}
  timeoutSeconds: {{ $v.prometheus.timeoutSeconds }}
  maxSampleAgeSeconds: {{ $v.prometheus.maxSampleAgeSeconds }}
  {{- if $v.prometheus.tokenSecretRef }}
  bearerTokenFile: /etc/pd-orchestrator/prometheus-token/{{ required "prometheus.tokenSecretRef.key must name a key of the Secret" $v.prometheus.tokenSecretRef.key }}
  {{- end }}
  {{- if $v.prometheus.caConfigMapRef }}
  caFile: /etc/pd-orchestrator/prometheus-ca/{{ required "prometheus.caConfigMapRef.key must name a key of the ConfigMap" $v.prometheus.caConfigMapRef.key }}
  {{- end }}
  labels: {{ toJson $v.prometheus.labels }}
webhook:
  enabled: {{ $v.webhook.enabled }}
  bindAddress: {{ printf ":%v" $v.ports.webhook | quote }}
  certificates: {{ ternary "CertManager" "Managed" (eq $v.webhook.certificates "cert-manager") }}
  {{- with $v.webhook.dnsNames }}
  dnsNames: {{ toJson . }}
  {{- end }}
  validitySeconds: {{ int $v.webhook.validitySeconds }}
{{- if eq .component "elasticscaler" }}
{{- $e := index $v "elastic-scaler" }}
elasticScaler:
  intervalSeconds: {{ $e.intervalSeconds }}
  stateSources:
  {{- range $e.stateSources }}
  - {apiVersion: {{ .apiVersion | quote }}, kind: {{ .kind | quote }}}
  {{- else }} []
  {{- end }}
  metricsAPIs: {{ toJson $e.metricsAPIs }}
  endpoints: {{ toJson $e.endpoints }}
  signals:
    bindAddress: {{ ternary (printf ":%v" $v.ports.signals) "0" $e.signals.enabled | quote }}
  cpuInitializationSeconds: {{ int $e.cpuInitializationSeconds }}
  initialReadinessSeconds: {{ int $e.initialReadinessSeconds }}
{{- end }}
{{- end }}
