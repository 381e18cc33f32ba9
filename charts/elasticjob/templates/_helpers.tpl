{{- define "elasticjob.name" -}}
{{- if contains "elasticjob" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-elasticjob" (.Release.Name | trunc 39 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "elasticjob.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "elasticjob.name" .) }}
{{- end }}

{{- define "elasticjob.selector" -}}
app.kubernetes.io/name: elasticjob-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "elasticjob.labels" -}}
{{ include "elasticjob.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What the operator does, and nothing more. It may give pods only rights that it has itself: no escalate, no bind. */}}
{{- define "elasticjob.rules" -}}
- apiGroups: [elasticjob.dev]
  resources: [elasticjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [elasticjob.dev]
  resources: [elasticjobs/status]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [""]
  resources: [serviceaccounts, services]
  verbs: [get, create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles]
  verbs: [get, create, update]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* The queues as the operator reads them. What a schema can't say is refused here, before anything is installed. */}}
{{- define "elasticjob.queues" -}}
{{- $names := dict }}
{{- range .Values.autoscaler.queues }}
{{- if hasKey $names .name }}{{ fail (printf "autoscaler.queues: there are two queues named %s: make them one" .name) }}{{ end }}
{{- $_ := set $names .name true }}
{{- if and (hasKey . "quota") (hasKey . "limit") }}{{ if gt (int .quota) (int .limit) }}
{{- fail (printf "autoscaler.queues: queue %s: its quota of %d accelerators is above its limit of %d: lower the quota or raise the limit" .name (int .quota) (int .limit)) }}
{{- end }}{{ end }}
{{- end }}
{{- .Values.autoscaler.queues | default list | toJson }}
{{- end }}
