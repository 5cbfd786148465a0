/* Reconciles pods: says what it receives, and asks for another call if the pod has the label "again". */
#include "informant.h"

static const char *const REASONS[] = {"initial",  "watch",         "relist",  "resync",  "replay",   "requeue", "reconfigured",
                                      "restored", "requeue-after", "trigger", "related", "takeover", "other"};

const char informant_manifest[] = "{\"name\":\"reconciler-c\",\"version\":\"1\",\"roles\":[\"reconciler\"],"
                                  "\"reconciler\":{\"for\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"when\":[\"labels\"]},"
                                  "\"owns\":[{\"apiVersion\":\"v1\",\"kind\":\"Secret\"}]}}";

informant_result informant_reconcile(const informant_request *request, json pod) {
    informant_log(INFORMANT_INFO, "%s %s %s%s", request->event.key, REASONS[request->event.reason], json_is_absent(pod) ? "gone" : "there",
                  request->cache_is_behind ? " behind" : "");
    return json_is_absent(json_at(pod, "metadata/labels/again")) ? informant_ok() : informant_requeue_after(3000);
}
