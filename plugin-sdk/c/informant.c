#include "informant.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The custom section that names the SDK and the contract for `informant plugin inspect`. The attribute `section` would
 * make a data segment. */
__asm__(".section \".custom_section.informant-sdk\",\"\",@\n"
        ".ascii \"{\\\"language\\\":\\\"c\\\",\\\"sdk\\\":\\\"0.1.0\\\",\\\"contract\\\":\\\"0.3.0\\\"}\"\n"
        ".text\n");

/* Defaults for functions that a plugin does not define. They return "ok", and Informant does not call them: the
 * manifest lists the roles. */
#define DEFAULT __attribute__((weak))

DEFAULT const char informant_manifest[] = "";
DEFAULT informant_result informant_describe(json context, const char **manifest) {
    (void)context;
    *manifest = informant_manifest;
    return informant_ok();
}
DEFAULT informant_result informant_init(json context) {
    (void)context;
    return informant_ok();
}
DEFAULT informant_result informant_on_add(const informant_event *event, json object) {
    (void)event, (void)object;
    return informant_ok();
}
DEFAULT informant_result informant_on_update(const informant_event *event, json old, json object) {
    (void)old;
    /* Nothing changed, somebody asked for the call: a plugin that handles adds only does so again. */
    bool is_asked_for = event->reason == INFORMANT_PLUGIN_TYPES_REASON_TRIGGER || event->reason == INFORMANT_PLUGIN_TYPES_REASON_REQUEUE_AFTER;
    return is_asked_for ? informant_on_add(event, object) : informant_ok();
}
DEFAULT informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown) {
    (void)event, (void)last, (void)final_state_unknown;
    return informant_ok();
}
DEFAULT informant_result informant_reconcile(const informant_request *request, json object) {
    (void)request, (void)object;
    return informant_ok();
}
DEFAULT informant_result informant_on_timer(const informant_tick *tick) {
    (void)tick;
    return informant_ok();
}
DEFAULT informant_result informant_on_synced(const informant_synced *synced) {
    (void)synced;
    return informant_ok();
}
DEFAULT informant_result informant_index(const informant_event *event, json object, informant_index_values *values) {
    (void)event, (void)object, (void)values;
    return informant_ok();
}

DEFAULT informant_result informant_save(informant_state *state) {
    (void)state;
    return informant_ok();
}
DEFAULT informant_result informant_restore(const uint8_t *state, size_t length) {
    (void)state, (void)length;
    return informant_ok();
}

void *informant_allocate(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (memory == NULL) {
        static const char MESSAGE[] = "out of memory";
        contract_string_t line = {(uint8_t *)MESSAGE, sizeof MESSAGE - 1};
        contract_list_tuple2_string_string_t none = {NULL, 0};
        informant_plugin_log_log(INFORMANT_ERROR, &line, &none);
        __builtin_trap();
    }
    return memory;
}

static char *format_message(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) length = 0;
    char *text = informant_allocate((size_t)length + 1);
    text[0] = 0;
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

informant_result informant_ok(void) { return (informant_result){INFORMANT_OK, NULL, 0}; }

informant_result informant_requeue_after(uint32_t milliseconds) {
    return (informant_result){INFORMANT_REQUEUE_AFTER, NULL, milliseconds};
}

#define FAIL(kind, milliseconds)                                                    \
    va_list arguments;                                                              \
    va_start(arguments, format);                                                    \
    informant_result result = {kind, format_message(format, arguments), milliseconds};     \
    va_end(arguments);                                                              \
    return result

informant_result informant_retryable(const char *format, ...) { FAIL(INFORMANT_RETRYABLE, 0); }
informant_result informant_retry_after(uint32_t milliseconds, const char *format, ...) { FAIL(INFORMANT_RETRY_AFTER, milliseconds); }
informant_result informant_permanent(const char *format, ...) { FAIL(INFORMANT_PERMANENT, 0); }

static contract_string_t borrowed(const char *text) { return (contract_string_t){(uint8_t *)text, strlen(text)}; }

static void log_line(informant_level level, const informant_field *fields, size_t count, const char *format, va_list arguments) {
    char *text = format_message(format, arguments);
    contract_string_t line = borrowed(text);
    contract_list_tuple2_string_string_t list = {informant_allocate(count * sizeof(contract_tuple2_string_string_t)), count};
    for (size_t i = 0; i < count; i++)
        list.ptr[i] = (contract_tuple2_string_string_t){borrowed(fields[i].name), borrowed(fields[i].value)};
    informant_plugin_log_log((informant_plugin_log_level_t)level, &line, &list);
    free(list.ptr);
    free(text);
}

void informant_log(informant_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line(level, NULL, 0, format, arguments);
    va_end(arguments);
}

void informant_log_fields(informant_level level, const informant_field *fields, size_t count, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line(level, fields, count, format, arguments);
    va_end(arguments);
}

void informant_panic_at(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_message(format, arguments);
    va_end(arguments);
    informant_log(INFORMANT_ERROR, "panicked at %s:%d: %s", file, line, text);
    __builtin_trap();
}

/* --- conversion between the contract's types and the SDK's --- */

static contract_string_t owned(char *text) { return (contract_string_t){(uint8_t *)text, strlen(text)}; }

/* Whether the call succeeded. If not, fills in `failure`, which then owns the message. Output without a newline is
 * still in stdio's buffer: it belongs to this call. */
static bool succeeded(informant_result result, informant_plugin_types_failure_t *failure) {
    fflush(NULL);
    switch (result.outcome) {
    case INFORMANT_REQUEUE_AFTER:
        result = informant_permanent("informant_requeue_after is only for the functions for events");
        break;
    case INFORMANT_OK: free(result.message); return true;
    case INFORMANT_RETRYABLE:
        failure->tag = INFORMANT_PLUGIN_TYPES_FAILURE_RETRYABLE;
        failure->val.retryable = owned(result.message);
        return false;
    case INFORMANT_RETRY_AFTER:
        failure->tag = INFORMANT_PLUGIN_TYPES_FAILURE_RETRY_AFTER;
        failure->val.retry_after.message = owned(result.message);
        failure->val.retry_after.after_ms = result.after_ms;
        return false;
    case INFORMANT_PERMANENT: break;
    }
    failure->tag = INFORMANT_PLUGIN_TYPES_FAILURE_PERMANENT;
    failure->val.permanent = owned(result.message);
    return false;
}

/* As `succeeded`, for functions whose failure is a message alone. */
static bool succeeded_or_says(informant_result result, contract_string_t *err) {
    informant_plugin_types_failure_t failure;
    if (result.outcome == INFORMANT_RETRYABLE || result.outcome == INFORMANT_RETRY_AFTER) result.outcome = INFORMANT_PERMANENT;
    if (succeeded(result, &failure)) return true;
    *err = failure.val.permanent;
    return false;
}

/* As `succeeded`, for the functions for events: these may ask for another call. */
static bool handled(informant_result result, contract_option_u32_t *requeue, informant_plugin_types_failure_t *failure) {
    *requeue = (contract_option_u32_t){result.outcome == INFORMANT_REQUEUE_AFTER, result.after_ms};
    if (requeue->is_some) result.outcome = INFORMANT_OK;
    return succeeded(result, failure);
}

static char *copy_to(char **at, contract_string_t text) {
    char *begin = *at;
    memcpy(begin, text.ptr, text.len);
    begin[text.len] = 0;
    *at += text.len + 1;
    return begin;
}

/* The source that the present call is about. */
static struct {
    bool is_known;
    uint32_t id;
} call_source;

/* Fills in the event of a call. Returns the memory that holds its strings, to be freed. */
static char *event_of(informant_event *event, const informant_plugin_types_object_ref_t *about, const informant_plugin_types_call_t *call) {
    size_t key = about->namespace_.len + about->name.len + 2;
    size_t others = about->namespace_.len + about->name.len + about->uid.len + about->resource_version.len + 4;
    char *memory = informant_allocate(others + key), *at = memory;
    call_source.is_known = true;
    call_source.id = event->source = about->source;
    event->namespace_ = copy_to(&at, about->namespace_);
    event->name = copy_to(&at, about->name);
    event->uid = copy_to(&at, about->uid);
    event->resource_version = copy_to(&at, about->resource_version);
    event->key = at;
    snprintf(at, key, "%s%s%s", event->namespace_, *event->namespace_ ? "/" : "", event->name);
    event->reason = call ? call->reason : INFORMANT_PLUGIN_TYPES_REASON_INITIAL;
    event->attempt = call ? call->attempt : 0;
    return memory;
}

static json document(const contract_list_u8_t *bytes) { return bytes ? json_of(bytes->ptr, bytes->len) : (json){NULL, NULL}; }

static contract_string_t copied(const char *text) {
    size_t length = strlen(text);
    /* The bindings free no text without a length. */
    if (length == 0) return (contract_string_t){NULL, 0};
    uint8_t *memory = informant_allocate(length);
    memcpy(memory, text, length);
    return (contract_string_t){memory, length};
}

/* --- clusters --- */

bool informant_address(const informant_event *event, informant_plugin_kube_address_t *address, informant_plugin_store_host_error_t *error) {
    informant_plugin_store_source_info_t source;
    if (!informant_plugin_store_source(event->source, &source, error)) return false;
    /* Takes two members of the source, which then owns them no longer. */
    *address = (informant_plugin_kube_address_t){.cluster = source.cluster, .resource = source.resource,
                                                 .namespace_ = copied(event->namespace_), .name = copied(event->name)};
    source.cluster = source.resource = (contract_string_t){NULL, 0};
    informant_plugin_store_source_info_free(&source);
    return true;
}

static bool are_equal(contract_string_t a, contract_string_t b) { return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0); }

bool informant_sources(const informant_event *event, const char *informer, contract_list_u32_t *sources,
                       informant_plugin_store_host_error_t *error) {
    informant_plugin_store_source_info_t source;
    if (!informant_plugin_store_source(event->source, &source, error)) return false;
    contract_string_t name = {(uint8_t *)informer, strlen(informer)};
    informant_plugin_store_list_source_info_t all;
    bool ok = informant_plugin_store_sources(&name, &all, error);
    if (ok) {
        *sources = (contract_list_u32_t){informant_allocate(all.len * sizeof(uint32_t)), 0};
        for (size_t i = 0; i < all.len; i++)
            if (are_equal(all.ptr[i].cluster, source.cluster)) sources->ptr[sources->len++] = all.ptr[i].id;
        informant_plugin_store_list_source_info_free(&all);
        /* An empty list would select all clusters. A pattern has its sources only once its cluster was asked for its
         * kinds, so a retry can succeed. */
        if (sources->len == 0) {
            free(sources->ptr);
            *error = (informant_plugin_store_host_error_t){INFORMANT_PLUGIN_TYPES_ERROR_CODE_NOT_READY,
                                                           copied("the informer has no source in the cluster of the object")};
            ok = false;
        }
    }
    informant_plugin_store_source_info_free(&source);
    return ok;
}

/* --- children --- */

bool informant_children(const informant_request *request, const informant_child *children, size_t count, informant_plugin_kube_children_t *done,
                        informant_plugin_kube_api_error_t *error) {
    const informant_event *of = &request->event;
    informant_plugin_kube_owner_t owner = {of->source, borrowed(of->namespace_), borrowed(of->name), borrowed(of->uid)};
    informant_plugin_kube_list_child_t list = {informant_allocate(count * sizeof(informant_plugin_kube_child_t)), count};
    for (size_t i = 0; i < count; i++) {
        contract_string_t text = borrowed(children[i].object);
        list.ptr[i] = (informant_plugin_kube_child_t){{text.ptr, text.len}, children[i].whole};
    }
    bool ok = informant_plugin_kube_defer_children(&owner, &list, done, error);
    free(list.ptr);
    return ok;
}

/* --- Kubernetes Events --- */

static contract_string_t copied_or_empty(const char *text) { return copied(text ? text : ""); }

static contract_string_t text_at(json object, const char *path) {
    char *text = json_string(json_at(object, path));
    if (text == NULL) informant_panic("out of memory");
    contract_string_t copy = copied(text);
    free(text);
    return copy;
}

/* Moves a text, which its owner then owns no longer. */
static contract_string_t moved(contract_string_t *text) {
    contract_string_t moved = *text;
    *text = (contract_string_t){NULL, 0};
    return moved;
}

/* Sets `regarding` to the object of a reference. If it returns false, only the error has to be freed. */
static bool regarding_of(const informant_reference *of, informant_plugin_recorder_regarding_t *regarding,
                         informant_plugin_recorder_host_error_t *error) {
    informant_plugin_store_source_info_t source = {0};
    bool is_asked = of->event != NULL || (of->cluster == NULL && call_source.is_known);
    if (is_asked && !informant_plugin_store_source(of->event ? of->event->source : call_source.id, &source, error)) return false;
    if (of->event)
        *regarding = (informant_plugin_recorder_regarding_t){.api_version = moved(&source.api_version), .kind = moved(&source.kind),
                                                             .namespace_ = copied(of->event->namespace_), .name = copied(of->event->name),
                                                             .uid = copied(of->event->uid)};
    else if (!json_is_absent(of->object))
        *regarding = (informant_plugin_recorder_regarding_t){.api_version = text_at(of->object, "apiVersion"), .kind = text_at(of->object, "kind"),
                                                             .namespace_ = text_at(of->object, "metadata/namespace"),
                                                             .name = text_at(of->object, "metadata/name"), .uid = text_at(of->object, "metadata/uid")};
    else
        *regarding = (informant_plugin_recorder_regarding_t){.api_version = copied_or_empty(of->api_version), .kind = copied_or_empty(of->kind),
                                                             .namespace_ = copied_or_empty(of->namespace_), .name = copied_or_empty(of->name),
                                                             .uid = copied_or_empty(of->uid)};
    regarding->cluster = is_asked ? moved(&source.cluster) : copied_or_empty(of->cluster);
    informant_plugin_store_source_info_free(&source);
    return true;
}

static bool record(const informant_reference *about, const informant_reference *related, informant_event_type type, const char *reason,
                   const char *action, informant_plugin_recorder_host_error_t *error, const char *format, va_list arguments) {
    informant_plugin_recorder_regarding_t regarding = {0}, second = {0};
    bool ok = regarding_of(about, &regarding, error) && (related == NULL || regarding_of(related, &second, error));
    if (ok) {
        char *text = format_message(format, arguments);
        contract_string_t why = borrowed(reason), what = borrowed(action ? action : reason), note = borrowed(text);
        ok = informant_plugin_recorder_event(&regarding, related ? &second : NULL, (informant_plugin_recorder_event_type_t)type, &why, &what, &note,
                                             error);
        free(text);
    }
    informant_plugin_recorder_regarding_free(&regarding);
    informant_plugin_recorder_regarding_free(&second);
    return ok;
}

bool informant_record(const informant_event *event, informant_event_type type, const char *reason, informant_plugin_recorder_host_error_t *error,
                      const char *format, ...) {
    informant_reference about = {.event = event};
    va_list arguments;
    va_start(arguments, format);
    bool ok = record(&about, NULL, type, reason, NULL, error, format, arguments);
    va_end(arguments);
    return ok;
}

bool informant_record_about(const informant_reference *about, const informant_reference *related, informant_event_type type, const char *reason,
                            const char *action, informant_plugin_recorder_host_error_t *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    bool ok = record(about, related, type, reason, action, error, format, arguments);
    va_end(arguments);
    return ok;
}

/* --- the contract's exports --- */

/* `indexes.names` of the manifest. */
static json index_names;

bool exports_informant_plugin_lifecycle_describe(contract_list_u8_t *context, contract_list_u8_t *ret, contract_string_t *err) {
    const char *manifest = "";
    informant_result result = informant_describe(document(context), &manifest);
    contract_list_u8_free(context);
    if (result.outcome == INFORMANT_OK && !*manifest)
        result = informant_permanent("the plugin has no manifest: define informant_manifest or informant_describe");
    if (!succeeded_or_says(result, err)) return false;
    contract_string_t text = copied(manifest);
    *ret = (contract_list_u8_t){text.ptr, text.len};
    return true;
}

bool exports_informant_plugin_lifecycle_init(contract_list_u8_t *context, informant_plugin_types_failure_t *err) {
    const char *manifest = "";
    bool ok = succeeded(informant_describe(document(context), &manifest), err);
    index_names = json_at(json_of(manifest, strlen(manifest)), "indexes/names");
    ok = ok && succeeded(informant_init(document(context)), err);
    contract_list_u8_free(context);
    return ok;
}

bool exports_informant_plugin_event_handler_on_add(informant_plugin_types_object_ref_t *about, informant_plugin_types_call_t *call,
                                                   contract_list_u8_t *object, contract_option_u32_t *ret,
                                                   informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, about, call);
    bool ok = handled(informant_on_add(&event, document(object)), ret, err);
    free(memory);
    informant_plugin_types_object_ref_free(about);
    contract_list_u8_free(object);
    return ok;
}

bool exports_informant_plugin_event_handler_on_update(informant_plugin_types_object_ref_t *about, informant_plugin_types_call_t *call,
                                                      contract_list_u8_t *maybe_old, contract_list_u8_t *object, contract_option_u32_t *ret,
                                                      informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, about, call);
    bool ok = handled(informant_on_update(&event, document(maybe_old), document(object)), ret, err);
    free(memory);
    informant_plugin_types_object_ref_free(about);
    if (maybe_old) contract_list_u8_free(maybe_old);
    contract_list_u8_free(object);
    return ok;
}

bool exports_informant_plugin_event_handler_on_delete(informant_plugin_types_object_ref_t *about, informant_plugin_types_call_t *call,
                                                      contract_list_u8_t *maybe_last, bool final_state_unknown, contract_option_u32_t *ret,
                                                      informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, about, call);
    bool ok = handled(informant_on_delete(&event, document(maybe_last), final_state_unknown), ret, err);
    free(memory);
    informant_plugin_types_object_ref_free(about);
    if (maybe_last) contract_list_u8_free(maybe_last);
    return ok;
}

bool exports_informant_plugin_reconciler_reconcile(informant_plugin_types_object_ref_t *about,
                                                   exports_informant_plugin_reconciler_request_t *request, contract_list_u8_t *maybe_object,
                                                   contract_option_u32_t *ret, informant_plugin_types_failure_t *err) {
    informant_plugin_types_call_t call = {request->reason, request->attempt};
    informant_request reconciled = {.cache_is_behind = request->cache_is_behind};
    char *memory = event_of(&reconciled.event, about, &call);
    bool ok = handled(informant_reconcile(&reconciled, document(maybe_object)), ret, err);
    free(memory);
    informant_plugin_types_object_ref_free(about);
    if (maybe_object) contract_list_u8_free(maybe_object);
    return ok;
}

bool exports_informant_plugin_timer_handler_on_timer(exports_informant_plugin_timer_handler_tick_t *tick,
                                                     informant_plugin_types_failure_t *err) {
    call_source.is_known = false;
    char *memory = informant_allocate(tick->name.len + tick->scheduled.len + 2), *at = memory;
    informant_tick run = {.missed = tick->missed, .attempt = tick->attempt};
    run.name = copy_to(&at, tick->name);
    run.scheduled = copy_to(&at, tick->scheduled);
    bool ok = succeeded(informant_on_timer(&run), err);
    free(memory);
    exports_informant_plugin_timer_handler_tick_free(tick);
    return ok;
}

bool exports_informant_plugin_sync_handler_on_synced(uint32_t source, informant_plugin_types_call_t *call,
                                                     informant_plugin_types_failure_t *err) {
    call_source.is_known = true;
    call_source.id = source;
    informant_synced synced = {source, call->reason, call->attempt};
    return succeeded(informant_on_synced(&synced), err);
}

struct informant_index_values {
    /* The values for each of the names. */
    contract_list_list_string_t *lists;
    /* The first name that is not in the manifest. */
    char *unknown;
};

/* Reallocates the list with space for one more element. */
static void *grow(void *list, size_t length, size_t size) {
    void *larger = informant_allocate((length + 1) * size);
    if (length) memcpy(larger, list, length * size);
    free(list);
    return larger;
}

void informant_index_value(informant_index_values *values, const char *index, const char *value) {
    size_t at = 0;
    json rest = index_names, name;
    while (json_next(&rest, &name) && !json_is(name, index)) at++;
    if (at == values->lists->len) {
        if (!values->unknown) values->unknown = strcpy(informant_allocate(strlen(index) + 1), index);
        return;
    }
    contract_list_string_t *list = &values->lists->ptr[at];
    list->ptr = grow(list->ptr, list->len, sizeof *list->ptr);
    list->ptr[list->len++] = copied(value);
}

/* A list without values for each of the plugin's indexes. */
static contract_list_list_string_t empty_lists(void) {
    contract_list_list_string_t lists = {NULL, 0};
    for (json rest = index_names, name; json_next(&rest, &name);) {
        lists.ptr = grow(lists.ptr, lists.len, sizeof *lists.ptr);
        lists.ptr[lists.len++] = (contract_list_string_t){NULL, 0};
    }
    return lists;
}

bool exports_informant_plugin_index_funcs_index(informant_plugin_types_object_ref_t *about, contract_list_u8_t *object,
                                                contract_list_list_string_t *ret, contract_string_t *err) {
    informant_event event;
    char *memory = event_of(&event, about, NULL);
    *ret = empty_lists();
    informant_index_values values = {ret, NULL};
    informant_result result = informant_index(&event, document(object), &values);
    free(memory);
    informant_plugin_types_object_ref_free(about);
    contract_list_u8_free(object);
    if (result.outcome == INFORMANT_OK && values.unknown)
        result = informant_permanent("index \"%s\" is not in indexes.names of the manifest", values.unknown);
    free(values.unknown);
    if (succeeded_or_says(result, err)) return true;
    contract_list_list_string_free(ret);
    return false;
}

struct informant_state {
    uint8_t *bytes;
    size_t length, capacity;
};

void informant_state_write(informant_state *state, const void *bytes, size_t length) {
    if (state->capacity - state->length < length) {
        size_t capacity = state->length + length > 2 * state->capacity ? state->length + length : 2 * state->capacity;
        uint8_t *larger = informant_allocate(capacity);
        if (state->length) memcpy(larger, state->bytes, state->length);
        free(state->bytes);
        state->bytes = larger;
        state->capacity = capacity;
    }
    if (length) memcpy(state->bytes + state->length, bytes, length);
    state->length += length;
}

bool exports_informant_plugin_state_save(contract_list_u8_t *ret, informant_plugin_types_failure_t *err) {
    informant_state state = {NULL, 0, 0};
    if (!succeeded(informant_save(&state), err)) {
        free(state.bytes);
        return false;
    }
    *ret = (contract_list_u8_t){state.bytes, state.length};
    return true;
}

bool exports_informant_plugin_state_restore(contract_list_u8_t *state, informant_plugin_types_failure_t *err) {
    bool ok = succeeded(informant_restore(state->ptr, state->len), err);
    contract_list_u8_free(state);
    return ok;
}
