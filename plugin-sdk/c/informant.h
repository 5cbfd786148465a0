/* Informant plugins in C: define `informant_manifest`, and of the functions below those that your plugin plays.
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
 * The component exports every role; `roles` in the manifest says which of them are called. Whatever a function is handed is gone when it
 * returns: copy what you keep. The cache (store) and the cluster (kube) are called as "contract.h", generated from the contract, declares them.
 */
#ifndef INFORMANT_H
#define INFORMANT_H

#include "contract.h"
#include "json.h"

/* The manifest, a JSON document (docs/plugins.md). */
extern const char informant_manifest[];

/* What a call is about, and why it is made. */
typedef struct {
    uint32_t source;
    const char *namespace, *name, *uid, *resource_version;
    /* "namespace/name", or "name" outside of namespaces: for logs. */
    const char *key;
    informant_plugin_types_reason_t reason;
    uint32_t attempt;
} informant_event;

/* How a call ended. */
typedef enum { INFORMANT_OK, INFORMANT_RETRYABLE, INFORMANT_RETRY_AFTER, INFORMANT_PERMANENT } informant_outcome;
typedef struct {
    informant_outcome outcome;
    char *message;
    uint32_t after_ms;
} informant_result;

#define INFORMANT_PRINTS(text, first) __attribute__((format(printf, text, first)))

informant_result informant_ok(void);
/* Tried again, with growing waits. */
informant_result informant_retryable(const char *format, ...) INFORMANT_PRINTS(1, 2);
/* Tried again after so many milliseconds. */
informant_result informant_retry_after(uint32_t milliseconds, const char *format, ...) INFORMANT_PRINTS(2, 3);
/* Not tried again: the event becomes a dead letter. */
informant_result informant_permanent(const char *format, ...) INFORMANT_PRINTS(1, 2);

/* A line in Informant's log. */
typedef enum { INFORMANT_TRACE, INFORMANT_DEBUG, INFORMANT_INFO, INFORMANT_WARN, INFORMANT_ERROR } informant_level;
void informant_log(informant_level level, const char *format, ...) INFORMANT_PRINTS(2, 3);

/* Memory that is there: a plugin without memory says so and traps. In C address 0 is memory like any other, so a malloc that is not checked
 * writes over what lies there. */
void *informant_allocate(size_t size);

/* Yours, those that you play. */

/* Once in each instance, before all else; `config` is the section's table. */
informant_result informant_init(informant_plugin_types_instance_role_t role, json config);
informant_result informant_on_add(const informant_event *event, json object);
/* `old` is absent unless the manifest asks for it and it is still known. */
informant_result informant_on_update(const informant_event *event, json old, json object);
/* `last` is absent if no state is known. */
informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown);
informant_result informant_on_synced(uint32_t source);

/* The values of the plugin's indexes for one object: call informant_index_value for each. */
typedef struct informant_index_values informant_index_values;
void informant_index_value(informant_index_values *values, const char *index, const char *value);
informant_result informant_index(const informant_event *event, json object, informant_index_values *values);

/* What the next version should know, with the role "state" in the manifest: write it, in one piece or several. This instance goes on as it was
 * if the swap is given up. */
typedef struct informant_state informant_state;
void informant_state_write(informant_state *state, const void *bytes, size_t length);
informant_result informant_save(informant_state *state);
/* What the version before wrote, whatever that was: called after informant_init and before the first event. A failure refuses the swap. */
informant_result informant_restore(const uint8_t *state, size_t length);

#endif
