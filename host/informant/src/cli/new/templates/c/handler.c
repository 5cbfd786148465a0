/* Logs the phase of each pod. */
#include <stdlib.h>

#include "informant.h"

const char informant_manifest[] = "{\"name\":\"{{name}}\",\"version\":\"0.1.0\",\"roles\":[\"event-handler\"]}";

informant_result informant_on_add(const informant_event *event, json pod) {
    char *phase = json_string(json_at(pod, "status/phase"));
    informant_log(INFORMANT_INFO, "%s is %s", event->key, phase ? phase : "unknown");
    free(phase);
    return informant_ok();
}

informant_result informant_on_update(const informant_event *event, json old, json pod) {
    (void)old;
    return informant_on_add(event, pod);
}
