/* Informant plugins in C: define `informant_manifest`, and the functions below for the roles that your plugin plays.
 *
 *     #include "informant.h"
 *
 *     const char informant_manifest[] = "{\"name\":\"hello\",\"version\":\"1\",\"roles\":[\"event-handler\"]}";
 *
 *     informant_result informant_on_add(const informant_event *event, json object) {
 *         informant_log(INFORMANT_INFO, "%s is new", event->key);
 *         return informant_ok();
 *     }
 *
 * The component exports every role, and Informant calls those that `roles` in the manifest lists. The arguments of a
 * function are freed when it returns: copy what you keep. To call the cache (store), the cluster (kube), what the
 * plugin remembers (kv) and its own metrics (metrics), use the functions in "contract.h", which is generated from the
 * contract.
 */
#ifndef INFORMANT_H
#define INFORMANT_H

#include "contract.h"
#include "json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The manifest, a JSON document (docs/reference/manifest.md). If it depends on the configuration, define
 * informant_describe instead. */
extern const char informant_manifest[];

/* The object that a call is about, and why the call is made. */
typedef struct {
    uint32_t source;
    const char *namespace_, *name, *uid, *resource_version;
    /* "namespace/name", or "name" for a cluster-scoped object: for logs. */
    const char *key;
    informant_plugin_types_reason_t reason;
    uint32_t attempt;
} informant_event;

/* The object that is to be reconciled, and the reason of the first cause since the last call. */
typedef struct {
    informant_event event;
    /* The cache may lack writes of earlier calls for this object, or a watch is down: do not conclude that something is
     * absent. */
    bool cache_is_behind;
} informant_request;

/* The source of which the plugin has received every object, and why the call is made. */
typedef struct {
    uint32_t source;
    informant_plugin_types_reason_t reason;
    uint32_t attempt;
} informant_synced;

/* A run of a timer. */
typedef struct {
    const char *name;
    /* When the run was due, RFC 3339 in UTC: "2026-11-28T08:00:00Z". */
    const char *scheduled;
    /* How many earlier runs were missed since the last one; this run stands for them. */
    uint32_t missed;
    uint32_t attempt;
} informant_tick;

/* The result of a call. */
typedef enum {
    INFORMANT_OK,
    INFORMANT_REQUEUE_AFTER,
    INFORMANT_RETRYABLE,
    INFORMANT_RETRY_AFTER,
    INFORMANT_PERMANENT
} informant_outcome;
typedef struct {
    informant_outcome outcome;
    char *message;
    uint32_t after_ms;
} informant_result;

#define INFORMANT_PRINTS(text, first) __attribute__((format(printf, text, first)))

informant_result informant_ok(void);
/* Done; call me again for this object in this many milliseconds, with the reason "requeue-after". Not a failure. Only
 * from the functions for events: informant_on_add, informant_on_update and informant_on_delete, and from
 * informant_reconcile. The next call for the object cancels it. */
informant_result informant_requeue_after(uint32_t milliseconds);
/* Retry with back-off. */
informant_result informant_retryable(const char *format, ...) INFORMANT_PRINTS(1, 2);
/* Retry after this many milliseconds. */
informant_result informant_retry_after(uint32_t milliseconds, const char *format, ...) INFORMANT_PRINTS(2, 3);
/* Do not retry: the event becomes a dead letter. */
informant_result informant_permanent(const char *format, ...) INFORMANT_PRINTS(1, 2);

/* Writes a line to Informant's log. */
typedef enum { INFORMANT_TRACE, INFORMANT_DEBUG, INFORMANT_INFO, INFORMANT_WARN, INFORMANT_ERROR } informant_level;
void informant_log(informant_level level, const char *format, ...) INFORMANT_PRINTS(2, 3);
/* As informant_log, with `count` fields. A value that is JSON ("3", "true", "[1]") is logged as such, any other as
 * text. */
typedef struct {
    const char *name, *value;
} informant_field;
void informant_log_fields(informant_level level, const informant_field *fields, size_t count, const char *format, ...) INFORMANT_PRINTS(4, 5);

/* Logs the message and where the call is in the source, and traps: the instance is lost, and Informant starts another.
 * abort() says nothing. */
#define informant_panic(...) informant_panic_at(__FILE__, __LINE__, __VA_ARGS__)
void informant_panic_at(const char *file, int line, const char *format, ...) INFORMANT_PRINTS(3, 4) __attribute__((noreturn));

/* Allocates memory. If there is none left, logs that and traps. In WebAssembly, address 0 is ordinary memory: writing
 * through an unchecked NULL from malloc corrupts it without a trap. */
void *informant_allocate(size_t size);

/* Sets `address` to the event's object, of whatever kind, in its cluster. Free it with
 * informant_plugin_kube_address_free. If it returns false, free the error. */
bool informant_address(const informant_event *event, informant_plugin_kube_address_t *address, informant_plugin_store_host_error_t *error);

/* Sets `sources` to those of the informer in the cluster of the event's object: for informant_plugin_store_query_t and
 * for indexes, which otherwise read all clusters. Free `sources.ptr` with free. If it returns false, free the error. */
bool informant_sources(const informant_event *event, const char *informer, contract_list_u32_t *sources,
                       informant_plugin_store_host_error_t *error);

/* An object for informant_children: a JSON document with apiVersion, kind and metadata.name. Without metadata.namespace
 * it is in that of its owner. Its fields are applied, and those of others stay. If it is `whole`, everything but
 * metadata and status becomes as it is here: for ConfigMap, Secret, Role, RoleBinding, ResourceQuota and
 * NetworkPolicy. */
typedef struct {
    const char *object;
    bool whole;
} informant_child;

/* Makes these the objects that belong to the one that is reconciled: defers writes of those that are not as they should
 * be, and deletes of those that are no longer among them. `reconciler.owns` of the manifest names their kinds. Call it
 * once in a call, with all of them. Free `done` with informant_plugin_kube_children_free. If it returns false, free the
 * error with informant_plugin_kube_api_error_free. */
bool informant_children(const informant_request *request, const informant_child *children, size_t count,
                        informant_plugin_kube_children_t *done, informant_plugin_kube_api_error_t *error);

/* An object for informant_record_about: that of `event`; or `object`, a document with apiVersion, kind and metadata; or
 * the one that the other members name. They are those of an ObjectReference, and may be NULL. Unless it is known, its
 * cluster is that of the object that the call is about. */
typedef struct {
    const informant_event *event;
    json object;
    const char *cluster, *api_version, *kind, *namespace_, *name, *uid;
} informant_reference;

/* Records a Kubernetes Event about the event's object, which `kubectl describe` shows. It is sent when the call has
 * succeeded. `reason` is CamelCase, and the text is for people. It needs `events = true` in `allow` of the plugin's
 * section. If it returns false, free the error with informant_plugin_recorder_host_error_free. */
typedef enum { INFORMANT_EVENT_NORMAL, INFORMANT_EVENT_WARNING } informant_event_type;
bool informant_record(const informant_event *event, informant_event_type type, const char *reason,
                      informant_plugin_recorder_host_error_t *error, const char *format, ...) INFORMANT_PRINTS(5, 6);
/* As informant_record, about any object, and with `related`, a second object, or NULL. `action`, what was done, is
 * CamelCase; NULL: the reason. */
bool informant_record_about(const informant_reference *about, const informant_reference *related,
                            informant_event_type type, const char *reason, const char *action,
                            informant_plugin_recorder_host_error_t *error, const char *format, ...)
    INFORMANT_PRINTS(7, 8);

/* Define these functions for the roles that your plugin plays. */

/* Sets the manifest, which is not freed. The default is informant_manifest. `context` is as for informant_init, without
 * the members about the instance. Called to describe the plugin, and again in each instance before informant_init. */
informant_result informant_describe(json context, const char **manifest);
/* Called once in each instance, before any other function. Members of `context`: `config` (the `config` table of the
 * plugin's section), `plugin`, `informant`, `contract`, `offers`, `roles`, `limits`, `role` ("events" or "index"),
 * `instance`, `instances`, `because`, `previous`, `logLevel`; wit/informant.wit says what they are. Of the host, only
 * informant_log and the functions of kv can be called. */
informant_result informant_init(json context);
informant_result informant_on_add(const informant_event *event, json object);
/* `old` is absent unless the manifest requests it and the previous state is still known. Without this function, calls
 * that were asked for (informant_requeue_after, `informant plugin trigger`) go to informant_on_add. */
informant_result informant_on_update(const informant_event *event, json old, json object);
/* `last` is absent if only the key is known. */
informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown);
/* The role "reconciler", in place of the functions for events: called for one object at a time, when it or one that
 * leads to it has changed. `object` is absent if it is gone. The manifest names both in `reconciler`. */
informant_result informant_reconcile(const informant_request *request, json object);
/* The role "timer-handler": called at the times of `timers` in the manifest. A failure is retried until the next run of
 * the timer is due. */
informant_result informant_on_timer(const informant_tick *tick);
informant_result informant_on_synced(const informant_synced *synced);

/* Computes the values of one object for the plugin's indexes: call informant_index_value for each value. `index` is one
 * of `indexes.names` in the manifest; another name fails the call. */
typedef struct informant_index_values informant_index_values;
void informant_index_value(informant_index_values *values, const char *index, const char *value);
informant_result informant_index(const informant_event *event, json object, informant_index_values *values);

/* The role "state": writes the state for the next version, in one or several calls of informant_state_write. Must not
 * change this instance: if the swap is abandoned, it continues. */
typedef struct informant_state informant_state;
void informant_state_write(informant_state *state, const void *bytes, size_t length);
informant_result informant_save(informant_state *state);
/* Receives exactly what the previous version wrote. Called after informant_init and before the first event. A failure
 * cancels the swap. */
informant_result informant_restore(const uint8_t *state, size_t length);

/* A function that this file does not declare and that is not `static` is probably a handler whose name has a typo: it
 * would never be called. The compiler then warns that it has "no previous prototype". */
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic warning "-Wmissing-prototypes"
#endif

#ifdef __cplusplus
}
#endif

#endif
