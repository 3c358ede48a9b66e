{{- define "identity.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "identity.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "identity.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "identity.secret" -}}
{{- .Values.secrets.existingSecret | default (include "identity.name" .) -}}
{{- end -}}

{{/* The role of the processes that serve requests. */}}
{{- define "identity.role" -}}
{{- ternary "web" "all" (gt (int .Values.worker.replicaCount) 0) -}}
{{- end -}}

{{- define "identity.port" -}}
{{- .Values.config.server.port | default 9011 -}}
{{- end -}}

{{/* Changes with the content of the secret. Without access to a cluster, as in `helm template`, an existing one is empty. */}}
{{- define "identity.secretChecksum" -}}
{{- if .Values.secrets.existingSecret -}}
{{- (lookup "v1" "Secret" .Release.Namespace .Values.secrets.existingSecret).data | toJson | sha256sum -}}
{{- else -}}
{{- include (print .Template.BasePath "/secret.yaml") . | sha256sum -}}
{{- end -}}
{{- end -}}

{{/* The pods of one role: called with (dict "root" $ "role" "web"). */}}
{{- define "identity.pod" -}}
{{- $ := .root -}}
{{- $port := eq .role "worker" | ternary "metrics" "http" -}}
metadata:
  labels:
    {{- include "identity.selector" $ | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    # A changed configuration or secret restarts the pods, one after the other.
    checksum/config: {{ include (print $.Template.BasePath "/config.yaml") $ | sha256sum }}
    checksum/secret: {{ include "identity.secretChecksum" $ }}
    {{- $metricsPort := ternary $.Values.worker.metricsPort (include "identity.port" $) (eq .role "worker") }}
    {{- if and $.Values.scrapeAnnotations $metricsPort }}
    prometheus.io/scrape: "true"
    prometheus.io/path: /api/prometheus/metrics
    prometheus.io/port: {{ $metricsPort | quote }}
    {{- end }}
    {{- with $.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ $.Values.terminationGracePeriodSeconds }}
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "identity.selector" $ | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  containers:
    - name: identity
      image: "{{ $.Values.image.repository }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}"
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      args: [run, --role, {{ .role }}]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      env:
        - name: IDENTITY__SECRETS__MASTER_KEY_FILE
          value: /run/secrets/identity/master.key
        - name: IDENTITY__MONGODB__URI
          valueFrom: {secretKeyRef: {name: {{ include "identity.secret" $ }}, key: mongodb-uri}}
        - name: IDENTITY__REDIS__URL
          valueFrom: {secretKeyRef: {name: {{ include "identity.secret" $ }}, key: redis-url}}
        {{- if eq .role "worker" }}
        # The port for metrics and probes, which is the only one of a worker.
        - {name: IDENTITY__METRICS__WORKER_ADDRESS, value: 0.0.0.0}
        - {name: IDENTITY__METRICS__WORKER_PORT, value: {{ $.Values.worker.metricsPort | default "null" | quote }}}
        {{- end }}
        {{- with $.Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- $number := ternary $.Values.worker.metricsPort (include "identity.port" $) (eq .role "worker") }}
      {{- if $number }}
      ports:
        - {name: {{ $port }}, containerPort: {{ $number }}}
      startupProbe:
        httpGet: {path: /api/health, port: {{ $port }}}
        periodSeconds: 2
        timeoutSeconds: 4
        failureThreshold: 60
      # Fails while the process is suspended or its event loop is blocked. An outage of a store restarts no pod.
      livenessProbe:
        httpGet: {path: /api/health/live, port: {{ $port }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      {{- end }}
      {{- if ne .role "worker" }}
      # Fails while MongoDB or Redis does not answer: the pod gets no requests, but is not restarted.
      readinessProbe:
        httpGet: {path: /api/health, port: http}
        periodSeconds: 5
        timeoutSeconds: 4
      lifecycle:
        preStop:
          exec: {command: [sleep, {{ $.Values.preStopSeconds | quote }}]}
      {{- end }}
      resources:
        {{- toYaml $.Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/identity, readOnly: true}
        - {name: master-key, mountPath: /run/secrets/identity, readOnly: true}
        - {name: data, mountPath: /var/lib/identity}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: config
      secret: {secretName: {{ include "identity.name" $ }}-config, defaultMode: 0440}
    - name: master-key
      secret:
        secretName: {{ include "identity.secret" $ }}
        defaultMode: 0440
        items: [{key: master.key, path: master.key}]
    - {name: data, emptyDir: {}}
    - {name: tmp, emptyDir: {}}
  {{- with $.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
