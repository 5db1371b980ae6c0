{{- define "muster.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "muster.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Labels of every object. Takes the root and the part. */}}
{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* Names under which the server answers, as JSON. */}}
{{- define "muster.hosts" -}}
{{- $name := include "muster.name" . -}}
{{- $ns := .Release.Namespace -}}
{{- $hosts := list "localhost" "127.0.0.1" $name (printf "%s.%s" $name $ns) (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.cluster.local" $name $ns) -}}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- $hosts | toJson -}}
{{- end }}

{{/* Where browsers reach the dashboard: that of the ingress unless set. */}}
{{- define "muster.publicUrl" -}}
{{- if .Values.publicUrl }}{{ .Values.publicUrl }}
{{- else if .Values.ingress.enabled }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- end }}
{{- end }}

{{/* The same with what a setting says of it, taken apart. */}}
{{- define "muster.place" -}}
{{- index .Values.settings "MUSTER_PUBLIC_URL" | default (include "muster.publicUrl" .) | toString | urlParse | toJson -}}
{{- end }}

{{/* Where clients reach the router. */}}
{{- define "muster.routerUrl" -}}
{{- .Values.router.url | default (printf "http://%s-router.%s.svc:%d" (include "muster.name" .) .Release.Namespace (int .Values.router.service.port)) -}}
{{- end }}

{{/* The controllers that run. Each has a router of its own, and the one that leads looks after its own alone: with a
router there is one. */}}
{{- define "muster.controllers" -}}
{{- ternary 1 (int .Values.controller.replicas) .Values.router.enabled -}}
{{- end }}

{{/* Refuses values with which the server would answer 421 to every request of the ingress. */}}
{{- define "muster.refuseUnansweredHost" -}}
{{- if and .Values.ingress.enabled (hasKey .Values.settings "MUSTER_ALLOWED_HOSTS") -}}
{{- $given := index .Values.settings "MUSTER_ALLOWED_HOSTS" -}}
{{- $hosts := ternary ($given | toString | fromJsonArray) $given (kindIs "string" $given) -}}
{{- $named := (include "muster.place" . | fromJson).hostname -}}
{{- if not (has (lower .Values.ingress.host) (append $hosts $named | join " " | lower | splitList " ")) -}}
{{- fail (printf "ingress.host %s is not among settings.MUSTER_ALLOWED_HOSTS, so every request would be answered with 421: add it there, or leave the setting out" .Values.ingress.host) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "muster.environment" -}}
- name: MUSTER_DATABASE_URL_FILE
  value: /run/muster/database_url
- name: MUSTER_REDIS_URL_FILE
  value: /run/muster/redis_url
# A file of a Secret belongs to root; the key's file would have to be ours alone.
- name: MUSTER_SECRETS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ required "existingSecret is required: a Secret with database_url and redis_url" .Values.existingSecret }}
      key: secrets_key
      optional: true
- name: MUSTER_OIDC_CLIENT_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .Values.existingSecret }}
      key: oidc_client_secret
      optional: true
- name: MUSTER_SCIM_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.existingSecret }}
      key: scim_token
      optional: true
{{- if not (hasKey .Values.settings "MUSTER_ALLOWED_HOSTS") }}
- name: MUSTER_ALLOWED_HOSTS
  value: {{ include "muster.hosts" . | quote }}
{{- end }}
{{- $settings := .Values.settings }}
{{- with include "muster.publicUrl" . }}
{{- if not (hasKey $settings "MUSTER_PUBLIC_URL") }}
- name: MUSTER_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.router.enabled }}
- name: MUSTER_ROUTER_DIR
  value: /run/router
- name: MUSTER_ROUTER_HOST
  value: 0.0.0.0
- name: MUSTER_ROUTER_PORT
  value: "8473"
- name: MUSTER_ROUTER_URL
  value: {{ include "muster.routerUrl" . | quote }}
# Replicas run in other pods.
- name: MUSTER_DEPLOYMENTS_LISTEN
  value: node
{{- end }}
- name: HOME
  value: /tmp
- name: MUSTER_SETUP_COMMAND
  value: kubectl exec -n {{ .Release.Namespace }} deploy/{{ include "muster.name" . }}-server -- muster-server setup-token --quiet
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  # As JSON, for Helm writes numbers of a million and more with an exponent.
  value: {{ ternary $value ($value | toJson) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}

{{/* A container of the server's image. Takes the root, its name, its command, and its own variables. */}}
{{- define "muster.container" -}}
- name: {{ .name }}
  image: {{ include "muster.image" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: {{ .command | toJson }}
  env:
    {{- include "muster.environment" .root | nindent 4 }}
    {{- range $name, $value := .variables }}
    - name: {{ $name }}
      value: {{ $value | quote }}
    {{- end }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
  volumeMounts:
    - name: urls
      mountPath: /run/muster
      readOnly: true
    - name: work
      mountPath: /var/lib/muster
    - name: tmp
      mountPath: /tmp
    {{- if .hasRouter }}
    - name: router
      mountPath: /run/router
    {{- end }}
    {{- if .hasBackups }}
    - name: backups
      mountPath: /var/lib/muster/backups
    {{- end }}
    {{- with .root.Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* What every pod of Muster has beside its containers. Takes the root. */}}
{{- define "muster.pod" -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Volumes that every container of Muster's own mounts. Takes the root. */}}
{{- define "muster.volumes" -}}
- name: urls
  secret:
    secretName: {{ .Values.existingSecret }}
    defaultMode: 0440
    items:
      - key: database_url
        path: database_url
      - key: redis_url
        path: redis_url
- name: work
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* HAProxy, the router of deployments, beside the controller that writes its configuration when there is something to
route. Both use the files and the runtime socket. */}}
{{- define "muster.router" -}}
- name: router
  image: {{ .Values.router.image | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, -c, "until [ -s /run/router/haproxy.cfg ]; do sleep 1; done; exec haproxy -db -f /run/router/haproxy.cfg"]
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
  resources:
    {{- toYaml .Values.router.resources | nindent 4 }}
  ports:
    - name: router
      containerPort: 8473
  volumeMounts:
    - name: router
      mountPath: /run/router
{{- end }}

{{/* A Deployment of one part. Takes the root, the part, its values, its port, its service account, whether it
gets the account's token, and its own variables. */}}
{{- define "muster.deployment" -}}
{{- $hasRouter := and (eq .part "controller") .root.Values.router.enabled }}
{{- $replicas := eq .part "controller" | ternary (include "muster.controllers" .root | int) (int .values.replicas) }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "muster.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "muster.labels" . | nindent 4 }}
spec:
  replicas: {{ $replicas }}
  {{- if $hasRouter }}
  # A second one would not lead, and its router have nothing to route.
  strategy:
    type: Recreate
  {{- end }}
  selector:
    matchLabels:
      {{- include "muster.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "muster.selector" . | nindent 8 }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      automountServiceAccountToken: {{ .hasToken }}
      terminationGracePeriodSeconds: 30
      {{- include "muster.pod" .root | nindent 6 }}
      initContainers:
        # A lock in the database lets one of them migrate; the others find nothing to do.
        {{- include "muster.container" (dict "root" .root "name" "migrate" "command" (list "muster-server" "migrate") "variables" dict "hasRouter" false) | nindent 8 }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
      containers:
        {{- include "muster.container" (dict "root" .root "name" .part "command" .command "variables" .variables "hasRouter" $hasRouter) | nindent 8 }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          ports:
            - name: http
              containerPort: {{ .port }}
          startupProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          {{- if eq .part "server" }}
          # Not /readyz: what is wrong behind it, a server says better itself.
          readinessProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 5
            timeoutSeconds: 5
          {{- end }}
        {{- if $hasRouter }}
        {{- include "muster.router" .root | nindent 8 }}
        {{- end }}
      volumes:
        {{- include "muster.volumes" .root | nindent 8 }}
        {{- if $hasRouter }}
        - name: router
          emptyDir: {}
        {{- end }}
      {{- if gt $replicas 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "muster.selector" . | nindent 14 }}
      {{- end }}
{{- end }}
