{{- define "holdpoint.selector" -}}
app.kubernetes.io/name: holdpoint
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "holdpoint.labels" -}}
{{ include "holdpoint.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* `tag` of the dict replaces that of the image. */}}
{{- define "holdpoint.image" -}}
{{- $values := .root.Values -}}
{{ $values.image.repository }}:{{ .tag | default $values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* What every pod has besides its container. */}}
{{- define "holdpoint.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 60
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* What every container has; `secret` of the dict names its Secret. */}}
{{- define "holdpoint.container" -}}
{{- $values := .root.Values -}}
image: {{ include "holdpoint.image" . }}
imagePullPolicy: {{ $values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: HOLDPOINT_ROLE, value: {{ .role }}}
  - {name: ALLOWED_HOSTS, value: {{ $values.host | quote }}}
  - {name: HOLDPOINT_SITE_URL, value: "https://{{ $values.host }}"}
  - {name: HOLDPOINT_BEHIND_PROXY, value: "1"}
  - {name: HOLDPOINT_WORKERS, value: {{ $values.workers.processes | quote }}}
  # Signed heads of the audit log leave the pod with the log.
  - {name: HOLDPOINT_AUDIT_HEADS_LOG, value: "1"}
  {{- if $values.files.existingClaim }}
  - {name: HOLDPOINT_FILE_ROOT, value: /var/lib/holdpoint-files}
  {{- end }}
  {{- range $name, $value := $values.settings }}
  - {name: {{ $name }}, value: {{ $value | toString | quote }}}
  {{- end }}
  {{- range $key := $values.secret.keys }}
  {{- if not (and $.owner (has $key $values.migrations.secret.keys)) }}
  - {name: {{ $key }}_FILE, value: /run/secrets/holdpoint/{{ $key }}}
  {{- end }}
  {{- end }}
  {{- if .owner }}
  {{- range $key := $values.migrations.secret.keys }}
  - {name: {{ $key }}_FILE, value: /run/secrets/owner/{{ $key }}}
  {{- end }}
  {{- end }}
volumeMounts:
  - {name: secret, mountPath: /run/secrets/holdpoint, readOnly: true}
  {{- if .owner }}
  - {name: owner, mountPath: /run/secrets/owner, readOnly: true}
  {{- end }}
  - {name: home, mountPath: /var/lib/holdpoint}
  - {name: tmp, mountPath: /tmp}
  {{- if $values.files.existingClaim }}
  - {name: files, mountPath: /var/lib/holdpoint-files}
  {{- end }}
{{- end }}

{{- define "holdpoint.volumes" -}}
{{- $values := .root.Values -}}
- name: secret
  secret:
    secretName: {{ $values.secret.name }}
    defaultMode: 0440
    items:
      {{- range $key := $values.secret.keys }}
      - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
{{- if .owner }}
- name: owner
  secret:
    secretName: {{ $values.migrations.secret.name }}
    defaultMode: 0440
    items:
      {{- range $key := $values.migrations.secret.keys }}
      - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
{{- end }}
- {name: home, emptyDir: {}}
- {name: tmp, emptyDir: {}}
{{- if $values.files.existingClaim }}
- name: files
  persistentVolumeClaim: {claimName: {{ $values.files.existingClaim }}}
{{- end }}
{{- end }}

{{/* Whether the process is stuck: the check of the image. `of` of the dict replaces its role. */}}
{{- define "holdpoint.alive" -}}
livenessProbe:
  exec: {command: [python, -m, config.observability.alive{{ with .of }}, {{ . }}{{ end }}]}
  initialDelaySeconds: 60
  periodSeconds: 30
  timeoutSeconds: 10
  failureThreshold: 4
{{- end }}
