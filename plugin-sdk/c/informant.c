#include "informant.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Defaults for functions that a plugin does not define. They return "ok", and Informant does not call them: the manifest lists the roles. */
#define DEFAULT __attribute__((weak))

DEFAULT informant_result informant_init(informant_plugin_types_instance_role_t role, json config) {
    (void)role, (void)config;
    return informant_ok();
}
DEFAULT informant_result informant_on_add(const informant_event *event, json object) {
    (void)event, (void)object;
    return informant_ok();
}
DEFAULT informant_result informant_on_update(const informant_event *event, json old, json object) {
    (void)event, (void)old, (void)object;
    return informant_ok();
}
DEFAULT informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown) {
    (void)event, (void)last, (void)final_state_unknown;
    return informant_ok();
}
DEFAULT informant_result informant_on_synced(uint32_t source) {
    (void)source;
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
        informant_plugin_log_log(INFORMANT_ERROR, &line);
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

#define FAIL(kind, milliseconds)                                                    \
    va_list arguments;                                                              \
    va_start(arguments, format);                                                    \
    informant_result result = {kind, format_message(format, arguments), milliseconds};     \
    va_end(arguments);                                                              \
    return result

informant_result informant_retryable(const char *format, ...) { FAIL(INFORMANT_RETRYABLE, 0); }
informant_result informant_retry_after(uint32_t milliseconds, const char *format, ...) { FAIL(INFORMANT_RETRY_AFTER, milliseconds); }
informant_result informant_permanent(const char *format, ...) { FAIL(INFORMANT_PERMANENT, 0); }

void informant_log(informant_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_message(format, arguments);
    va_end(arguments);
    contract_string_t line = {(uint8_t *)text, strlen(text)};
    informant_plugin_log_log((informant_plugin_log_level_t)level, &line);
    free(text);
}

/* --- conversion between the contract's types and the SDK's --- */

static contract_string_t owned(char *text) { return (contract_string_t){(uint8_t *)text, strlen(text)}; }

/* Whether the call succeeded. If not, fills in `failure`, which then owns the message. Output without a newline is
 * still in stdio's buffer: it belongs to this call. */
static bool succeeded(informant_result result, informant_plugin_types_failure_t *failure) {
    fflush(NULL);
    switch (result.outcome) {
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

static char *copy_to(char **at, contract_string_t text) {
    char *begin = *at;
    memcpy(begin, text.ptr, text.len);
    begin[text.len] = 0;
    *at += text.len + 1;
    return begin;
}

/* Fills in the event of a call. Returns the memory that holds its strings, to be freed. */
static char *event_of(informant_event *event, const informant_plugin_types_object_ref_t *o, const informant_plugin_types_call_t *c) {
    size_t key = o->namespace_.len + o->name.len + 2;
    char *memory = informant_allocate(o->namespace_.len + o->name.len + o->uid.len + o->resource_version.len + key + 5), *at = memory;
    event->source = o->source;
    event->namespace = copy_to(&at, o->namespace_);
    event->name = copy_to(&at, o->name);
    event->uid = copy_to(&at, o->uid);
    event->resource_version = copy_to(&at, o->resource_version);
    event->key = at;
    snprintf(at, key, "%s%s%s", event->namespace, *event->namespace ? "/" : "", event->name);
    event->reason = c ? c->reason : INFORMANT_PLUGIN_TYPES_REASON_INITIAL;
    event->attempt = c ? c->attempt : 0;
    return memory;
}

static json document(const contract_list_u8_t *bytes) { return bytes ? json_of(bytes->ptr, bytes->len) : (json){NULL, NULL}; }

/* --- the contract's exports --- */

void exports_informant_plugin_lifecycle_describe(contract_list_u8_t *ret) {
    ret->len = strlen(informant_manifest);
    ret->ptr = informant_allocate(ret->len);
    memcpy(ret->ptr, informant_manifest, ret->len);
}

bool exports_informant_plugin_lifecycle_init(informant_plugin_types_instance_role_t role, contract_list_u8_t *config,
                                             informant_plugin_types_failure_t *err) {
    bool ok = succeeded(informant_init(role, document(config)), err);
    contract_list_u8_free(config);
    return ok;
}

bool exports_informant_plugin_event_handler_on_add(informant_plugin_types_object_ref_t *o, informant_plugin_types_call_t *c,
                                                   contract_list_u8_t *object, informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, o, c);
    bool ok = succeeded(informant_on_add(&event, document(object)), err);
    free(memory);
    informant_plugin_types_object_ref_free(o);
    contract_list_u8_free(object);
    return ok;
}

bool exports_informant_plugin_event_handler_on_update(informant_plugin_types_object_ref_t *o, informant_plugin_types_call_t *c,
                                                      contract_list_u8_t *maybe_old, contract_list_u8_t *object,
                                                      informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, o, c);
    bool ok = succeeded(informant_on_update(&event, document(maybe_old), document(object)), err);
    free(memory);
    informant_plugin_types_object_ref_free(o);
    if (maybe_old) contract_list_u8_free(maybe_old);
    contract_list_u8_free(object);
    return ok;
}

bool exports_informant_plugin_event_handler_on_delete(informant_plugin_types_object_ref_t *o, informant_plugin_types_call_t *c,
                                                      contract_list_u8_t *last, bool final_state_unknown,
                                                      informant_plugin_types_failure_t *err) {
    informant_event event;
    char *memory = event_of(&event, o, c);
    bool ok = succeeded(informant_on_delete(&event, document(last), final_state_unknown), err);
    free(memory);
    informant_plugin_types_object_ref_free(o);
    contract_list_u8_free(last);
    return ok;
}

bool exports_informant_plugin_sync_handler_on_synced(uint32_t source, informant_plugin_types_failure_t *err) {
    return succeeded(informant_on_synced(source), err);
}

struct informant_index_values {
    contract_list_tuple2_string_list_string_t *pairs;
};

static contract_string_t copied(const char *text) {
    size_t length = strlen(text);
    uint8_t *memory = informant_allocate(length);
    memcpy(memory, text, length);
    return (contract_string_t){memory, length};
}

/* Reallocates the list with space for one more element. */
static void *grow(void *list, size_t length, size_t size) {
    void *larger = informant_allocate((length + 1) * size);
    if (length) memcpy(larger, list, length * size);
    free(list);
    return larger;
}

void informant_index_value(informant_index_values *values, const char *index, const char *value) {
    contract_list_tuple2_string_list_string_t *pairs = values->pairs;
    size_t at = 0, length = strlen(index);
    while (at < pairs->len && (pairs->ptr[at].f0.len != length || memcmp(pairs->ptr[at].f0.ptr, index, length))) at++;
    if (at == pairs->len) {
        pairs->ptr = grow(pairs->ptr, pairs->len, sizeof *pairs->ptr);
        pairs->ptr[pairs->len++] = (contract_tuple2_string_list_string_t){copied(index), {NULL, 0}};
    }
    contract_list_string_t *list = &pairs->ptr[at].f1;
    list->ptr = grow(list->ptr, list->len, sizeof *list->ptr);
    list->ptr[list->len++] = copied(value);
}

bool exports_informant_plugin_index_funcs_index(informant_plugin_types_object_ref_t *o, contract_list_u8_t *object,
                                                contract_list_tuple2_string_list_string_t *ret, contract_string_t *err) {
    informant_event event;
    char *memory = event_of(&event, o, NULL);
    *ret = (contract_list_tuple2_string_list_string_t){NULL, 0};
    informant_index_values values = {ret};
    informant_result result = informant_index(&event, document(object), &values);
    free(memory);
    informant_plugin_types_object_ref_free(o);
    contract_list_u8_free(object);
    fflush(NULL);
    if (result.outcome == INFORMANT_OK) return true;
    *err = owned(result.message);
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
