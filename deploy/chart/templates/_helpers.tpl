{{- /* The name of all objects in the namespace: short enough for "-check", and for the names of pods. */}}
{{- define "informant.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- default $name .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* The name of objects in no namespace or in others: releases of one name may exist in several namespaces. */}}
{{- define "informant.clusterName" -}}
{{- $name := include "informant.fullname" . }}
{{- if eq $name .Release.Namespace }}
{{- $name }}
{{- else }}
{{- printf "%s-%s" .Release.Namespace $name }}
{{- end }}
{{- end }}

{{- define "informant.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "informant.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "informant.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "informant.labels" -}}
{{ include "informant.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* Of the check. Its pod must not be selected as Informant's. */}}
{{- define "informant.checkLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-check
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "informant.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- $version := printf "%s%s" $.Chart.AppVersion (ternary "-python" "" (default false .python)) }}
{{- printf "%s:%s" .repository (default $version .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* config.toml and the files next to it. */}}
{{- define "informant.configData" -}}
{{- $data := merge (dict "config.toml" .Values.config) .Values.scripts }}
{{- $yaml := toYaml $data }}
{{- /* toYaml returns nothing if it fails. It omits the last line end. */}}
{{- if ne (toJson (fromYaml (printf "%s\n" $yaml))) (toJson $data) }}
{{- fail "\n`config` or one of `scripts` has a control character that YAML cannot contain. Write it as an escape sequence." }}
{{- end -}}
data:
  {{- $yaml | nindent 2 }}
{{- with .Values.components }}
binaryData:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* `shards` in the section [ha] of config.toml; empty if it is not there. */}}
{{- define "informant.shards" -}}
{{- $section := regexFind `(?ms)^[ \t]*\[[ \t]*ha[ \t]*\].*?(^[ \t]*\[|\z)` .Values.config }}
{{- regexFind `(?m)^[ \t]*shards[ \t]*=[ \t]*[0-9]+` $section | regexFind `[0-9]+$` }}
{{- end }}

{{- define "informant.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "informant.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}

{{- /* Init containers, which keep to the "restricted" Pod Security Standard unless they have a security context. */}}
{{- define "informant.initContainers" -}}
{{- with .Values.initContainers }}
{{- $restricted := include "informant.securityContext" $ | fromYaml }}
initContainers:
  {{- range . }}
  {{- $container := deepCopy . }}
  {{- if not (hasKey . "securityContext") }}
  {{- $_ := set $container "securityContext" $restricted }}
  {{- end }}
  - {{- toYaml $container | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Volumes and mounts that Informant and its check have in common. */}}
{{- define "informant.volumes" -}}
{{- /* Compiled components: lost with the pod, and compiled again. */ -}}
- name: cache
  emptyDir: {}
{{- /* The admin socket, for `kubectl exec`: the root file system is read-only. */}}
- name: run
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "informant.volumeMounts" -}}
{{- /* The whole folder. Single files (subPath) do not change when the ConfigMap does. */ -}}
- name: config
  mountPath: /etc/informant
  readOnly: true
- name: cache
  mountPath: /cache
- name: run
  mountPath: /run/informant
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* ClusterRole, Roles and their bindings, for Informant or its check. Takes `root`, the `suffix` of all names, the
`serviceAccount`, the `labels`, and `annotations`. */}}
{{- define "informant.roles" -}}
{{- $root := .root }}
{{- $call := . }}
{{- $name := printf "%s%s" (include "informant.clusterName" $root) .suffix }}
{{- $scopes := deepCopy $root.Values.fromConfig.namespaceRules }}
{{- with $root.Values.fromConfig.clusterRules }}
{{- $_ := set $scopes "" . }}
{{- end }}
{{- range $namespace, $rules := $scopes }}
{{- $prefix := ternary "Cluster" "" (empty $namespace) }}
{{- range $kind := list "Role" "RoleBinding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}{{ $kind }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- $call.labels | nindent 4 }}
  {{- with $call.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- if eq $kind "Role" }}
rules:
  {{- toYaml $rules | nindent 2 }}
{{- else }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $prefix }}Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $call.serviceAccount }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "informant.env" -}}
- name: XDG_CACHE_HOME
  value: /cache
{{- if .Values.fromConfig.ha }}
# Where other replicas reach the admin port, if it listens on all addresses.
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Where the pod runs, and with which credentials its images are pulled. */}}
{{- define "informant.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if gt (int .Values.replicas) 1 }}
# The loss of a node takes one replica.
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "informant.selectorLabels" . | nindent 14 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Annotations of the check's objects: created before the release changes, in the order of `weight`. A failed check
leaves its objects, so that you can read its log. */}}
{{- define "informant.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
