/* The conformance kit in C. tests/guests/README.md describes what it does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_http.h"
#include "informant.h"

/* Longer texts are not logged, in bytes. */
enum { SHOWN_MAX = 1000 };

static uint64_t calls;

informant_result informant_describe(json context, const char **manifest) {
    static char text[1500];
    json config = json_at(context, "config"), wanted = json_at(config, "payload");
    char *payload = json_string(wanted), rule[200] = "", events[300] = "";
    if (*payload == '/') snprintf(rule, sizeof rule, ",\"payload\":{\"fields\":[\"%s\"]}", payload);
    else if (*payload && strcmp(payload, "whole")) snprintf(rule, sizeof rule, ",\"payload\":\"%s\"", payload);
    free(payload);
    bool old = json_is(json_at(config, "old"), "yes");
    /* Members at their default are left out, as other SDKs do. */
    if (*rule || old) snprintf(events, sizeof events, "\"events\":[{\"apiVersion\":\"*\",\"kind\":\"*\"%s%s}],", rule, old ? ",\"old\":true" : "");
    snprintf(text, sizeof text,
             "{\"name\":\"conformance\",\"version\":\"1\",\"roles\":[\"event-handler\",\"sync-handler\",\"index-funcs\",\"state\"],"
             "\"parallel\":true,%s"
             "\"indexes\":{\"names\":[\"text\"],\"objects\":[{\"apiVersion\":\"*\",\"kind\":\"*\"}]},"
             "\"metrics\":[{\"name\":\"seen\",\"type\":\"counter\",\"help\":\"Seen texts\",\"labels\":[\"text\"]},"
             "{\"name\":\"bytes\",\"type\":\"gauge\",\"help\":\"Bytes of the last text\"},"
             "{\"name\":\"sizes\",\"type\":\"histogram\",\"help\":\"Bytes of texts\",\"buckets\":[2,4]},"
             "{\"name\":\"last\",\"type\":\"gauge\",\"help\":\"The last object\",\"labels\":[\"name\"]}]}",
             events);
    *manifest = text;
    return informant_ok();
}

/* The object's text, or "-". To be freed. */
static char *text_of(json object) {
    json text = json_at(object, "spec/text");
    return json_is_absent(text) ? strcpy(informant_allocate(2), "-") : json_string(text);
}

static const char *parts_of(json object) {
    bool metadata = !json_is_absent(json_at(object, "metadata")), spec = !json_is_absent(json_at(object, "spec"));
    return metadata && spec ? "metadata+spec" : metadata ? "metadata" : spec ? "spec" : "nothing";
}

static contract_string_t borrowed(const char *text) { return (contract_string_t){(uint8_t *)text, strlen(text)}; }

/* Appends the text of an object to a list, separated by commas. */
static char *joined(char *list, const contract_list_u8_t *object) {
    char *text = text_of(json_of(object->ptr, object->len));
    char *longer = informant_allocate(strlen(list) + strlen(text) + 2);
    sprintf(longer, "%s%s%s", list, *list ? "," : "", text);
    free(list), free(text);
    return longer;
}

/* The texts of all objects in the sources, or NULL. To be freed. */
static char *listed(contract_list_u32_t sources, informant_plugin_store_host_error_t *error) {
    contract_string_t pods = borrowed("pods");
    informant_plugin_store_query_t query = {.sources = sources};
    informant_plugin_store_page_t page;
    char *texts = strcpy(informant_allocate(1), "");
    do {
        if (!informant_plugin_store_list(&pods, &query, &page, error)) {
            free(texts), contract_string_free(&query.cursor);
            return NULL;
        }
        for (size_t i = 0; i < page.items.len; i++) texts = joined(texts, &page.items.ptr[i].object);
        contract_string_free(&query.cursor);
        query.cursor = page.cursor;
        page.cursor = (contract_string_t){NULL, 0};
        informant_plugin_store_page_free(&page);
    } while (query.cursor.len);
    return texts;
}

static bool reads(const informant_event *event, informant_plugin_store_host_error_t *error) {
    contract_string_t pods = borrowed("pods"), namespace = borrowed("default"), peer = borrowed("peer"), index = borrowed("namespace");
    contract_list_string_t whole = {NULL, 0};
    informant_plugin_store_option_item_t found;
    if (!informant_plugin_store_find(&pods, &namespace, &peer, &whole, &found, error)) return false;
    char *text = found.is_some ? joined(strcpy(informant_allocate(1), ""), &found.val.object) : strcpy(informant_allocate(2), "-");
    informant_plugin_store_option_item_free(&found);
    contract_list_u32_t here, everywhere = {NULL, 0};
    bool ok = informant_sources(event, "pods", &here, error);
    if (ok) {
        informant_plugin_store_list_object_key_t keys;
        char *in_cluster = listed(here, error), *in_all = in_cluster ? listed(everywhere, error) : NULL;
        ok = in_all && informant_plugin_store_index_keys(&pods, &here, &index, &namespace, &keys, error);
        if (ok) {
            informant_log(INFORMANT_INFO, "found=%s listed=%s keys=%zu everywhere=%s", text, in_cluster, keys.len, in_all);
            informant_plugin_store_list_object_key_free(&keys);
        }
        free(in_cluster), free(in_all), free(here.ptr);
    }
    free(text);
    return ok;
}

static informant_result failed(informant_plugin_store_host_error_t *error) {
    informant_result result = informant_retryable("%.*s", (int)error->message.len, error->message.ptr);
    informant_plugin_store_host_error_free(error);
    return result;
}

/* Counts in kv, and sets `seen/NAME` if it is absent. */
static bool remembers(const informant_event *event, informant_plugin_kv_host_error_t *error) {
    contract_string_t count_key = borrowed("count"), prefix = borrowed("seen/"), cursor = borrowed("");
    contract_option_list_u8_t found;
    if (!informant_plugin_kv_get(&count_key, &found, error)) return false;
    char number[20], seen[300];
    snprintf(number, sizeof number, "%.*s", found.is_some ? (int)found.val.len : 0, found.is_some ? (char *)found.val.ptr : "");
    contract_option_list_u8_free(&found);
    snprintf(number, sizeof number, "%d", atoi(number) + 1);
    snprintf(seen, sizeof seen, "seen/%s", event->name);
    contract_string_t seen_key = borrowed(seen);
    contract_list_u8_t count = {(uint8_t *)number, strlen(number)}, value = {(uint8_t *)"true", 4};
    contract_list_string_t keys;
    bool is_new;
    if (!informant_plugin_kv_set(&count_key, &count, error)) return false;
    if (!informant_plugin_kv_set_if_absent(&seen_key, &value, &is_new, error)) return false;
    if (!informant_plugin_kv_list(&prefix, &cursor, 0, &keys, error)) return false;
    char text[500] = "";
    for (size_t i = 0; i < keys.len; i++) {
        size_t end = strlen(text);
        snprintf(text + end, sizeof text - end, "%s%.*s", i ? "," : "", (int)keys.ptr[i].len, keys.ptr[i].ptr);
    }
    contract_list_string_free(&keys);
    informant_log(INFORMANT_INFO, "remembered=%s new=%s keys=%s", number, is_new ? "true" : "false", text);
    return true;
}

/* Changes a metric of each type, and one that the manifest lacks. */
static bool measures(const informant_event *event, const char *text, informant_plugin_metrics_host_error_t *error) {
    contract_string_t seen = borrowed("seen"), bytes = borrowed("bytes"), sizes = borrowed("sizes"), last = borrowed("last");
    informant_plugin_metrics_label_t of_text = {borrowed("text"), borrowed(text)}, of_name = {borrowed("name"), borrowed(event->name)};
    informant_plugin_metrics_list_label_t none = {NULL, 0}, texts = {&of_text, 1};
    informant_plugin_metrics_sample_t sample = {1, {&of_name, 1}};
    informant_plugin_metrics_list_sample_t samples = {&sample, 1};
    if (!informant_plugin_metrics_add(&seen, 1, &texts, error)) return false;
    if (!informant_plugin_metrics_set(&bytes, (double)strlen(text), &none, error)) return false;
    if (!informant_plugin_metrics_observe(&sizes, (double)strlen(text), &none, error)) return false;
    if (!informant_plugin_metrics_replace(&last, &samples, error)) return false;
    contract_string_t undeclared = borrowed("undeclared");
    if (informant_plugin_metrics_add(&undeclared, 1, &none, error)) return true;
    bool is_invalid = error->code == INFORMANT_PLUGIN_TYPES_ERROR_CODE_INVALID;
    informant_log(INFORMANT_INFO, "undeclared=%s", is_invalid ? "invalid" : "other");
    informant_plugin_metrics_host_error_free(error);
    return true;
}

static informant_result patches(const informant_event *event) {
    informant_plugin_kube_address_t address;
    informant_plugin_store_host_error_t unknown;
    if (!informant_address(event, &address, &unknown)) return failed(&unknown);
    char text[200];
    snprintf(text, sizeof text, "{\"metadata\":{\"uid\":\"%s\",\"labels\":{\"seen\":\"yes\"}}}", event->uid);
    contract_list_u8_t patch = {(uint8_t *)text, strlen(text)}, options = {NULL, 0}, answer;
    informant_plugin_kube_api_error_t error;
    if (informant_plugin_kube_patch(&address, INFORMANT_PLUGIN_KUBE_PATCH_KIND_MERGE, &patch, &options, &answer, &error)) {
        informant_log(INFORMANT_INFO, "patched");
        contract_list_u8_free(&answer);
    } else {
        informant_log(INFORMANT_INFO, "%s", error.code == INFORMANT_PLUGIN_KUBE_API_ERROR_CODE_DENIED ? "denied" : "another error");
        informant_plugin_kube_api_error_free(&error);
    }
    informant_plugin_kube_address_free(&address);
    return informant_ok();
}

/* What became of a deferred write. Frees the error. */
static const char *outcome(bool is_deferred, informant_plugin_kube_api_error_t *error) {
    if (is_deferred) return "deferred";
    bool is_denied = error->code == INFORMANT_PLUGIN_KUBE_API_ERROR_CODE_DENIED;
    informant_plugin_kube_api_error_free(error);
    return is_denied ? "denied" : "another error";
}

/* Defers a write of each kind. */
static bool defers(const informant_event *event, informant_plugin_store_host_error_t *unknown) {
    informant_plugin_kube_address_t address;
    if (!informant_address(event, &address, unknown)) return false;
    /* Borrows from the address, and so is not freed. */
    informant_plugin_kube_address_t map_address = address;
    map_address.resource = borrowed("v1/configmaps");
    informant_plugin_kube_address_t maps_address = map_address;
    maps_address.name = borrowed("");
    char map[200], patch[200], precondition[200];
    snprintf(map, sizeof map, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\"}}", event->name);
    snprintf(patch, sizeof patch, "{\"metadata\":{\"uid\":\"%s\",\"labels\":{\"seen\":\"yes\"}}}", event->uid);
    snprintf(precondition, sizeof precondition, "{\"preconditions\":{\"uid\":\"%s\"}}", event->uid);
    contract_list_u8_t map_bytes = {(uint8_t *)map, strlen(map)}, patch_bytes = {(uint8_t *)patch, strlen(patch)};
    contract_list_u8_t options = {(uint8_t *)precondition, strlen(precondition)}, none = {NULL, 0};
    informant_plugin_kube_api_error_t error;
    const char *create = outcome(informant_plugin_kube_defer_create(&maps_address, &map_bytes, &none, &error), &error);
    const char *update = outcome(informant_plugin_kube_defer_update(&map_address, &map_bytes, &none, &error), &error);
    const char *patched =
        outcome(informant_plugin_kube_defer_patch(&address, INFORMANT_PLUGIN_KUBE_PATCH_KIND_MERGE, &patch_bytes, &none, &error), &error);
    const char *delete = outcome(informant_plugin_kube_defer_delete(&address, &options, &error), &error);
    informant_log(INFORMANT_INFO, "create=%s update=%s patch=%s delete=%s", create, update, patched, delete);
    informant_plugin_kube_address_free(&address);
    return true;
}

static informant_result acts_as(const char *action, const informant_event *event, const char *text) {
    bool is_first = event->attempt == 0;
    if (!strcmp(action, "retryable") && is_first) return informant_retryable("%s", text);
    if (!strcmp(action, "retry-after") && is_first) return informant_retry_after(50, "%s", text);
    if (!strcmp(action, "permanent")) return informant_permanent("%s", text);
    if (!strcmp(action, "trap") && is_first) __builtin_trap();
    if (!strcmp(action, "requeue") && event->reason != INFORMANT_PLUGIN_TYPES_REASON_REQUEUE_AFTER) return informant_requeue_after(100);
    if (!strcmp(action, "patch")) return patches(event);
    if (!strcmp(action, "call")) calls_service(event, text);
    informant_plugin_store_host_error_t error;
    if (!strcmp(action, "read") && !reads(event, &error)) return failed(&error);
    if (!strcmp(action, "remember")) {
        if (!remembers(event, &error)) return failed(&error);
        if (is_first && !strcmp(text, "fails")) return informant_retryable("fails");
    }
    if (!strcmp(action, "measure")) {
        if (!measures(event, text, &error)) return failed(&error);
        if (is_first && !strcmp(text, "fails")) return informant_retryable("fails");
    }
    if (!strcmp(action, "defer") && !defers(event, &error)) return failed(&error);
    return informant_ok();
}

static informant_result acts(const informant_event *event, json object, const char *text) {
    static const char DEFER[] = "defer-";
    char *wanted = json_string(json_at(object, "metadata/annotations/do")), *action = wanted;
    informant_result result = informant_ok();
    if (!strncmp(wanted, DEFER, strlen(DEFER))) {
        result = acts_as("defer", event, text);
        action += strlen(DEFER);
    }
    if (result.outcome == INFORMANT_OK) result = acts_as(action, event, text);
    free(wanted);
    return result;
}

/* The text, or its length. */
static const char *shown(const char *text, char length[30]) {
    snprintf(length, 30, "%zu", strlen(text));
    return strlen(text) > SHOWN_MAX ? length : text;
}

/* In the order of the contract. */
static const char *const REASONS[] = {"initial",  "watch",         "relist",  "resync",  "replay",   "requeue", "reconfigured",
                                      "restored", "requeue-after", "trigger", "related", "takeover", "other"};

static informant_result handles(const char *call, const informant_event *event, json old, json object) {
    char *text = text_of(object), *before = text_of(old), lengths[2][30];
    informant_log(INFORMANT_INFO, "%llu %s %s %s %u old=%s sees=%s text=%s", (unsigned long long)++calls, call, event->key, REASONS[event->reason],
                  event->attempt, shown(before, lengths[0]), parts_of(object), shown(text, lengths[1]));
    informant_result result = acts(event, object, text);
    free(text), free(before);
    return result;
}

informant_result informant_on_add(const informant_event *event, json object) { return handles("add", event, (json){NULL, NULL}, object); }

informant_result informant_on_update(const informant_event *event, json old, json object) { return handles("update", event, old, object); }

informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown) {
    return handles(final_state_unknown ? "vanish" : "delete", event, (json){NULL, NULL}, last);
}

informant_result informant_on_synced(const informant_synced *synced) {
    informant_plugin_store_source_info_t source;
    informant_plugin_store_host_error_t error;
    if (!informant_plugin_store_source(synced->source, &source, &error)) return failed(&error);
    char attempt[11], reason[20];
    snprintf(attempt, sizeof attempt, "%u", synced->attempt);
    snprintf(reason, sizeof reason, "\"%s\"", REASONS[synced->reason]);
    const informant_field fields[] = {{"reason", reason}, {"attempt", attempt}};
    informant_log_fields(INFORMANT_INFO, fields, 2, "synced %.*s %.*s", (int)source.informer.len, source.informer.ptr, (int)source.cluster.len, source.cluster.ptr);
    informant_plugin_store_source_info_free(&source);
    return informant_ok();
}

informant_result informant_index(const informant_event *event, json object, informant_index_values *values) {
    (void)event;
    char *text = text_of(object);
    informant_result result = informant_ok();
    if (json_is(json_at(object, "metadata/annotations/do"), "no-index")) result = informant_permanent("%s", text);
    else informant_index_value(values, "text", text);
    free(text);
    return result;
}

informant_result informant_save(informant_state *state) {
    informant_state_write(state, &calls, sizeof calls);
    return informant_ok();
}

informant_result informant_restore(const uint8_t *state, size_t length) {
    if (length != sizeof calls) return informant_permanent("a state of %zu bytes is not a state of this plugin", length);
    memcpy(&calls, state, length);
    return informant_ok();
}
