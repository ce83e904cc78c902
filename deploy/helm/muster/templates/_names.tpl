{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* The pod's own name, which clients of any namespace find. */}}
{{- define "muster.host" -}}
{{ .Release.Name }}-0.{{ .Release.Name }}.{{ .Release.Namespace }}.svc
{{- end }}
