{{- /* Whether the file `path` is on a volume: below one of `mounts`. */}}
{{- define "informant.isMounted" -}}
{{- $path := .path }}
{{- range .mounts }}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .)) $path }}yes{{ end }}
{{- end }}
{{- end }}

{{- define "informant.validate" -}}
{{- $from := .Values.fromConfig }}
{{- $again := "Run `informant rbac -c config.toml -o helm-values > informant-values.yaml`, and pass that file as the last --values." }}
{{- $sha256 := .Values.config | replace "\r\n" "\n" | trim | sha256sum }}
{{- if ne $sha256 $from.sha256 }}
{{- fail (printf "\n`config` and `fromConfig` do not belong together: config has the SHA-256 %s, fromConfig is for %s. Informant would run with the permissions of another configuration. %s" $sha256 $from.sha256 $again) }}
{{- end }}

{{- $namespaces := keys $from.namespaceRules | sortAlpha }}
{{- if ne (join "," $namespaces) (join "," (sortAlpha $from.namespaces)) }}
{{- fail (printf "\n`fromConfig` has rules for the namespaces [%s], but config needs them in [%s]: Helm merged the values of several files or of an earlier release. %s Do not use --reuse-values." (join ", " $namespaces) (join ", " $from.namespaces) $again) }}
{{- end }}

{{- if and (gt (int .Values.replicas) 1) (not $from.ha) }}
{{- fail (printf "\nreplicas is %d, but config has no section [ha]: each replica would call every handler. Add [ha] to config.toml, or set replicas=1. %s" (int .Values.replicas) $again) }}
{{- end }}

{{- with .Values.shards }}
{{- $written := include "informant.shards" $ }}
{{- if ne (int .) (int $written) }}
{{- $found := ternary (printf "`shards = %s`" $written) "no `shards`" (ne $written "") }}
{{- fail (printf "\nshards is %d, but [ha] in config has %s. The chart does not change config.toml: write a line `shards = %d` below [ha], or remove the value `shards`. %s" (int .) $found (int .) $again) }}
{{- end }}
{{- end }}

{{- $mounts := list }}
{{- range .Values.extraVolumeMounts }}
{{- $mounts = append $mounts .mountPath }}
{{- end }}
{{- range $from.files }}
{{- $path := printf "/etc/informant/%s" . }}
{{- if not (or (hasKey $.Values.scripts .) (hasKey $.Values.components .) (include "informant.isMounted" (dict "path" $path "mounts" $mounts))) }}
{{- fail (printf "\nconfig names the file %s, which is in neither `scripts` nor `components`, and no extraVolumeMounts contains %s. If it is next to config.toml: %s Otherwise mount it, and write its absolute path into config.toml." . $path $again) }}
{{- end }}
{{- end }}
{{- range $name, $_ := merge (dict) .Values.scripts .Values.components }}
{{- if not (has $name $from.files) }}
{{- fail (printf "\n`scripts` or `components` has %s, which config does not use. Remove it, or name it in a [plugin.NAME] section. `helm upgrade --reuse-values` keeps files that you removed: use --reset-values." $name) }}
{{- end }}
{{- if and (hasKey $.Values.scripts $name) (hasKey $.Values.components $name) }}
{{- fail (printf "\n%s is in both `scripts` and `components`. Remove it from one of them." $name) }}
{{- end }}
{{- end }}

{{- $bytes := len .Values.config }}
{{- range .Values.scripts }}
{{- $bytes = add $bytes (len .) }}
{{- end }}
{{- range .Values.components }}
{{- $bytes = add $bytes (len (b64dec .)) }}
{{- end }}
{{- if gt (int $bytes) 1048576 }}
{{- fail (printf "\nconfig, scripts and components have %d bytes together, but a ConfigMap holds 1048576. Put components into an image volume or on another volume (`extraVolumes`, `extraVolumeMounts`), or copy them with one of `initContainers`, and write their absolute path into config.toml: docs/guides/ship-plugins.md" (int $bytes)) }}
{{- end }}

{{- if .Values.state.enabled }}
{{- if not $from.usesState }}
{{- fail "\nstate.enabled is true, but config has no state database. Add [state] with a path to config.toml, or set state.enabled=false." }}
{{- end }}
{{- $mounts = append $mounts .Values.state.mountPath }}
{{- end }}
{{- if $from.usesState }}
{{- if not $from.statePath }}
{{- fail (printf "\nconfig uses a state database without a path, and the default path is not writable in the container. Add this to config.toml: [state] path = \"%s/state.redb\"" (trimSuffix "/" .Values.state.mountPath)) }}
{{- end }}
{{- if not (include "informant.isMounted" (dict "path" $from.statePath "mounts" $mounts)) }}
{{- if .Values.state.enabled }}
{{- fail (printf "\nconfig has the state database at %s, which is not below state.mountPath (%s). Change one of them." $from.statePath .Values.state.mountPath) }}
{{- end }}
{{- fail (printf "\nconfig has the state database at %s, but no volume is mounted there. Set state.enabled=true, or mount a volume with extraVolumes." $from.statePath) }}
{{- end }}
{{- end }}

{{- if not (or $from.adminTls .Values.admin.allowUnauthenticated) }}
{{- fail "\nconfig has no [admin] tls, so everybody who may port-forward to the pod could read every cached object and control plugins. Add this to config.toml: [admin] tls = \"self-signed\" (docs/guides/secure.md), or set admin.allowUnauthenticated=true." }}
{{- end }}
{{- range $section, $listen := dict "health" $from.healthListen "admin" $from.adminListen }}
{{- if hasSuffix ":0" $listen }}
{{- fail (printf "\n[%s] listen in config is %s, but the chart needs a fixed port. Remove it: the default is suitable for a pod." $section $listen) }}
{{- end }}
{{- end }}
{{- range $from.adminTlsFiles }}
{{- if not (include "informant.isMounted" (dict "path" . "mounts" $mounts)) }}
{{- fail (printf "\n[admin] tls in config names %s, but no volume is mounted there. Mount the Secret with extraVolumes and extraVolumeMounts (docs/guides/secure.md)." .) }}
{{- end }}
{{- end }}
{{- if .Values.admin.expose }}
{{- if not $from.adminTlsFiles }}
{{- fail "\nadmin.expose is true, but config has no [admin] tls with files, so clients could not verify the certificate. Add this to config.toml: [admin] tls = { cert-file = \"/tls/tls.crt\", key-file = \"/tls/tls.key\" } (docs/guides/secure.md), or set admin.expose=false." }}
{{- end }}
{{- if or (hasPrefix "127." $from.adminListen) (hasPrefix "[::1]" $from.adminListen) }}
{{- fail (printf "\nadmin.expose is true, but [admin] listen in config is %s, which nothing outside the pod can reach. Write [admin] listen = \"[::]:8089\", or set admin.expose=false." $from.adminListen) }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.adminFrom) }}
{{- fail "\nadmin.expose is true, but networkPolicy.adminFrom is empty, so nothing outside the node could connect. List who may connect, or set networkPolicy.enabled=false." }}
{{- end }}
{{- else if .Values.networkPolicy.adminFrom }}
{{- fail "\nnetworkPolicy.adminFrom is set, but admin.expose is false. Set admin.expose=true, or remove it." }}
{{- end }}
{{- if or (hasPrefix "127." $from.healthListen) (hasPrefix "[::1]" $from.healthListen) }}
{{- fail (printf "\n[health] listen in config is %s, which the kubelet's probes cannot reach. Remove it: the default is suitable for a pod." $from.healthListen) }}
{{- end }}

{{- if and .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "\nserviceAccount.create is false and serviceAccount.name is empty, so every pod with the ServiceAccount `default` would get Informant's permissions. Set serviceAccount.name, or rbac.create=false." }}
{{- end }}
{{- range $argument := .Values.args }}
{{- range $section := list "health" "admin" }}
{{- if hasPrefix (printf "--%s-listen" $section) $argument }}
{{- fail (printf "\nargs has --%s-listen, but the ports of the pod follow from config. Write [%s] listen in config.toml." $section $section) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $label, $_ := include "informant.labels" . | fromYaml }}
{{- if hasKey (default dict $.Values.podLabels) $label }}
{{- fail (printf "\npodLabels has %s, which the chart sets itself. Remove it." $label) }}
{{- end }}
{{- end }}
{{- $own := ternary (list "config" "cache" "run" "state") (list "config" "cache" "run") .Values.state.enabled }}
{{- range .Values.extraVolumes }}
{{- if has .name $own }}
{{- fail (printf "\nextraVolumes has a volume `%s`, which is the name of one of the chart's. Choose another name." .name) }}
{{- end }}
{{- end }}
{{- end }}
