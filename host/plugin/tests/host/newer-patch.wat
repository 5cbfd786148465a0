;; A plugin built for a newer patch release of the contract: `log` has a function `flush` more, and there is an interface
;; `chart`. `VERSION` is replaced by the contract's version, `ACTION` by what on-synced does after it has logged "known".
(component
  (type $failure-types (instance
    (type (record (field "message" string) (field "after-ms" u32)))
    (export "retry-later" (type (eq 0)))
    (type (variant (case "retryable" string) (case "retry-after" 1) (case "permanent" string)))
    (export "failure" (type (eq 2)))
    (type (enum "initial" "watch" "relist" "resync" "replay" "requeue" "reconfigured" "restored" "requeue-after"
      "trigger" "related" "takeover" "other"))
    (export "reason" (type (eq 4)))
    (type (record (field "reason" 5) (field "attempt" u32)))
    (export "call" (type (eq 6)))))
  (import "informant:plugin/types@VERSION" (instance $types (type $failure-types)))
  (alias export $types "failure" (type $failure))
  (alias export $types "call" (type $call))
  (import "informant:plugin/log@VERSION" (instance $log
    (type $level-enum (enum "trace" "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level-enum)))
    (export "log" (func (param "level" $level) (param "message" string)
      (param "fields" (list (tuple string string)))))
    (export "flush" (func (param "wait" bool)))))
  CHART
  (core module $memory
    (memory (export "memory") 4)
    (data (i32.const 256) "known")
    (data (i32.const 512) "{\"name\":\"newer\",\"version\":\"1\"ROLES}")
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $mem))
  (alias core export $memory "realloc" (core func $realloc))
  (core func $log-lowered (canon lower (func $log "log") (memory $mem)))
  (core func $flush-lowered (canon lower (func $log "flush")))
  LOWERED
  (core module $code
    (import "host" "log" (func $log (param i32 i32 i32 i32 i32)))
    (import "host" "flush" (func $flush (param i32)))
    (import "host" "draw" (func $draw (param i32)))
    (import "memory" "memory" (memory 4))
    (func (export "describe") (param i32 i32) (result i32)
      (i32.store (i32.const 4) (i32.const 512))
      (i32.store (i32.const 8) (i32.const LENGTH))
      i32.const 0)
    (func (export "init") (param i32 i32) (result i32) i32.const 64)
    (func (export "on-synced") (param i32 i32 i32) (result i32)
      (call $log (i32.const 2) (i32.const 256) (i32.const 5) (i32.const 0) (i32.const 0))
      ACTION
      i32.const 64))
  (core instance $code (instantiate $code
    (with "memory" (instance $memory))
    (with "host" (instance (export "log" (func $log-lowered)) (export "flush" (func $flush-lowered))
      (export "draw" (func $draw-lowered))))))
  (func $describe (param "context" (list u8)) (result (result (list u8) (error string)))
    (canon lift (core func $code "describe") (memory $mem) (realloc $realloc)))
  (func $init (param "context" (list u8)) (result (result (error $failure)))
    (canon lift (core func $code "init") (memory $mem) (realloc $realloc)))
  (func $on-synced (param "source" u32) (param "call" $call) (result (result (error $failure)))
    (canon lift (core func $code "on-synced") (memory $mem) (realloc $realloc)))
  (instance $lifecycle (export "describe" (func $describe)) (export "init" (func $init)))
  (instance $sync (export "on-synced" (func $on-synced)))
  (export "informant:plugin/lifecycle@VERSION" (instance $lifecycle))
  (export "informant:plugin/sync-handler@VERSION" (instance $sync))
  ROLE)
