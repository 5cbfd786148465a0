/* The test guest in C: counts the events that it receives and transfers the count to the next version.
 *
 * It logs a line for each event: {"guest":"c","name":"a","version":"7","events":5}. After an object named "save-fails" the next save fails, after
 * one named "restore-fails" the next restore. For one named "prints" the line goes to stdout, without a newline. One named "requeued" asks to
 * be called again after 5 s. Before `init` it tries to read a pod, and logs the answer: {"guest":"c","at":"start","error":"..."}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "informant.h"

const char informant_manifest[] = "{\"name\":\"guest-c\",\"version\":\"1\",\"roles\":[\"event-handler\",\"state\"],"
                                  "\"events\":[{\"apiVersion\":\"*\",\"kind\":\"*\",\"payload\":\"metadata\"}]}";

static struct {
    uint32_t events;
    bool fails_to_save, fails_to_restore;
} known;

__attribute__((constructor)) static void read_pod(void) {
    informant_plugin_kube_address_t address = {0};
    contract_string_set(&address.resource, "v1/pods");
    contract_string_set(&address.namespace_, "default");
    contract_string_set(&address.name, "a");
    contract_list_u8_t pod;
    informant_plugin_kube_api_error_t error;
    if (informant_plugin_kube_get(&address, &pod, &error)) {
        contract_list_u8_free(&pod);
        informant_log(INFORMANT_INFO, "{\"guest\":\"c\",\"at\":\"start\"}");
        return;
    }
    informant_log(INFORMANT_INFO, "{\"guest\":\"c\",\"at\":\"start\",\"error\":\"%.*s\"}", (int)error.message.len, (const char *)error.message.ptr);
    informant_plugin_kube_api_error_free(&error);
}

informant_result informant_on_add(const informant_event *event, json object) {
    (void)object;
    known.events++;
    known.fails_to_save |= strcmp(event->name, "save-fails") == 0;
    known.fails_to_restore |= strcmp(event->name, "restore-fails") == 0;
    if (strcmp(event->name, "prints") == 0) {
        printf("{\"guest\":\"c\",\"name\":\"%s\",\"version\":\"%s\",\"events\":%u}", event->name,
               event->resource_version, known.events);
        return informant_ok();
    }
    informant_log(INFORMANT_INFO, "{\"guest\":\"c\",\"name\":\"%s\",\"version\":\"%s\",\"events\":%u}", event->name, event->resource_version,
                  known.events);
    if (strcmp(event->name, "requeued") == 0 && event->reason != INFORMANT_PLUGIN_TYPES_REASON_REQUEUE_AFTER) return informant_requeue_after(5000);
    return informant_ok();
}

informant_result informant_on_update(const informant_event *event, json old, json object) {
    (void)old;
    return informant_on_add(event, object);
}

informant_result informant_save(informant_state *state) {
    if (known.fails_to_save) return informant_permanent("asked to fail");
    informant_state_write(state, &known, 1);
    informant_state_write(state, (const char *)&known + 1, sizeof known - 1);
    return informant_ok();
}

informant_result informant_restore(const uint8_t *state, size_t length) {
    if (length != sizeof known) return informant_permanent("a state of %zu bytes is not a state of this plugin", length);
    memcpy(&known, state, length);
    return known.fails_to_restore ? informant_permanent("asked to fail") : informant_ok();
}
