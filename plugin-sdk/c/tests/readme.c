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
    return remove_pod(event) ? informant_ok() : informant_permanent("not removed");
}
