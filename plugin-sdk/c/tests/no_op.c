/* The benchmark's empty handler: receives the bytes of each pod and does nothing. Its calls cost what a call costs. */
#include "informant.h"

const char informant_manifest[] = "{\"name\":\"no-op-c\",\"version\":\"1\",\"roles\":[\"event-handler\"],"
                                  "\"events\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}]}";

informant_result informant_on_update(const informant_event *event, json old, json object) {
    (void)event, (void)old, (void)object;
    return informant_ok();
}
