/* The code blocks of ../README.md, in a plugin that runs them. host/plugin/tests/host/c.rs compares the text. */
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "informant.h"

const char informant_manifest[] = "{\"name\":\"hello\",\"version\":\"1\",\"roles\":[\"event-handler\"]}";

informant_result informant_on_add(const informant_event *event, json pod) {
    char *phase = json_string(json_at(pod, "status/phase"));
    informant_log(INFORMANT_INFO, "%s is %s", event->key, phase);
    free(phase);
    return informant_ok();
}

static bool warn_of_restarts(const informant_event *event, int restarts) {
    informant_plugin_recorder_host_error_t error;
    if (informant_record(event, INFORMANT_EVENT_WARNING, "Crashing", &error, "%d restarts", restarts)) return true;
    informant_log(INFORMANT_WARN, "%s: %.*s", event->key, (int)error.message.len, error.message.ptr);
    informant_plugin_recorder_host_error_free(&error);
    return false;
}

static informant_result keep_note(const informant_request *request, const char *text) {
    char object[500];
    snprintf(object, sizeof object,
             "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s-note\"},"
             "\"data\":{\"text\":\"%s\"}}",
             request->event.name, text);
    informant_child note = {.object = object, .whole = true};
    informant_plugin_kube_children_t done;
    informant_plugin_kube_api_error_t error;
    if (!informant_children(request, &note, 1, &done, &error)) {
        const char *message = (const char *)error.message.ptr;
        informant_result failed = informant_retryable("%.*s", (int)error.message.len, message);
        informant_plugin_kube_api_error_free(&error);
        return failed;
    }
    if (done.refused.len > 0) informant_log(INFORMANT_WARN, "%s-note belongs to somebody else", request->event.key);
    informant_plugin_kube_children_free(&done);
    return informant_ok();
}

/* The manifest lacks this role: the README says what it does, and it has to compile. */
informant_result informant_reconcile(const informant_request *request, json object) {
    return json_is_absent(object) ? informant_ok() : keep_note(request, "kept");
}

static bool remove_pod(const informant_event *event) {
    informant_plugin_kube_address_t address;
    informant_plugin_store_host_error_t unknown;
    if (!informant_address(event, &address, &unknown)) {
        informant_plugin_store_host_error_free(&unknown);
        return false;
    }
    char text[200];
    snprintf(text, sizeof text, "{\"preconditions\":{\"uid\":\"%s\"}}", event->uid);
    contract_list_u8_t options = {(uint8_t *)text, strlen(text)};
    informant_plugin_kube_api_error_t error;
    bool is_done = informant_plugin_kube_defer_delete(&address, &options, &error);
    informant_plugin_kube_address_free(&address);
    if (is_done) return true;
    informant_log(INFORMANT_WARN, "%s: %.*s", event->key, (int)error.message.len, error.message.ptr);
    informant_plugin_kube_api_error_free(&error);
    return false;
}

informant_result informant_on_update(const informant_event *event, json old, json pod) {
    (void)old, (void)pod;
    if (!remove_pod(event)) return informant_permanent("not removed");
    /* The test grants no Events. */
    return warn_of_restarts(event, 3) ? informant_permanent("not denied") : informant_ok();
}
