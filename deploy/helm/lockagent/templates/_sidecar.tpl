{{/*
What a pod with an agent has more than the app's: labels of its metadata, an annotation that changes with the
configuration, one init container, three volumes; and a ConfigMap beside it. deploy/kubernetes/sidecar says of each
line why it is there; a test compares them.
*/}}

{{/* The masters' NetworkPolicy and the PodMonitor select it. */}}
{{- define "lockagent.labels" -}}
lockagent: "true"
{{- end }}

{{/* Another configuration is a rollout like any other. */}}
{{- define "lockagent.annotations" -}}
checksum/lockagent: {{ toYaml .Values.lockagent.config | sha256sum }}
{{- end }}

{{- define "lockagent.initContainer" -}}
{{- if semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version }}
{{- fail (printf "lockagent needs native sidecars, of Kubernetes 1.29 or later; this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- $values := .Values.lockagent -}}
- name: lockagent
  image: {{ $values.image | quote }}
  imagePullPolicy: {{ $values.imagePullPolicy }}
  restartPolicy: Always
  args: [serve, --config, /etc/lockagent/lockagent.yaml]
  ports:
    - {name: lockagent, containerPort: 9090}
  startupProbe:
    exec: {command: [lockagent, healthcheck, --ready]}
    periodSeconds: 1
    timeoutSeconds: 2
    failureThreshold: 300
    terminationGracePeriodSeconds: 1
  livenessProbe:
    exec: {command: [lockagent, healthcheck]}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: {{ $values.livenessFailures }}
    terminationGracePeriodSeconds: 1
  resources:
    {{- toYaml $values.resources | nindent 4 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
    - {name: lockagent-conf, mountPath: /etc/lockagent, readOnly: true}
    - {name: lockagent-password, mountPath: /etc/lockagent-password, readOnly: true}
    - {name: lockagent-journal, mountPath: /run/lockagent}
{{- end }}

{{- define "lockagent.volumes" -}}
- name: lockagent-conf
  configMap: {name: {{ include "lockagent.name" . }}}
- name: lockagent-password
  secret: {secretName: {{ .Values.lockagent.passwordSecret }}, optional: true}
- name: lockagent-journal
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.lockagent.journalSize }}}
{{- end }}

{{/* One for each release: apps of several releases may share a namespace. */}}
{{- define "lockagent.name" -}}
{{ printf "%s-lockagent" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "lockagent.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "lockagent.name" . }}
data:
  lockagent.yaml: |
    {{- toYaml .Values.lockagent.config | nindent 4 }}
{{- end }}
