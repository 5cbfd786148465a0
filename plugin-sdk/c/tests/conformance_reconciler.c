/* The reconciler of the conformance kit in C. tests/guests/README.md describes what it does. The SDK has no functions
 * for `status` and `finalize`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "informant.h"

/* Children that an object names, and the bytes of each document. */
enum { CHILDREN_MAX = 4, DOCUMENT_MAX = 200 };

static const char *const REASONS[] = {"initial",  "watch",         "relist",  "resync",  "replay",   "requeue", "reconfigured",
                                      "restored", "requeue-after", "trigger", "related", "takeover", "other"};

const char informant_manifest[] = "{\"name\":\"conformance-reconciler\",\"version\":\"1\",\"roles\":[\"reconciler\",\"timer-handler\"],"
                                  "\"reconciler\":{\"for\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
                                  "\"when\":[\"/spec\",\"/metadata/annotations\"]},"
                                  "\"owns\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}]},"
                                  "\"timers\":[{\"name\":\"poll\",\"every\":\"10s\"},{\"name\":\"fails\",\"every\":\"1h\"}],"
                                  "\"needs\":[{\"events\":{}}]}";

/* Sets the children that the text names. */
static informant_result set_children(const informant_request *request, const char *text) {
    char documents[CHILDREN_MAX][DOCUMENT_MAX];
    informant_child children[CHILDREN_MAX];
    size_t count = 0;
    for (const char *name = text; *name && count < CHILDREN_MAX; count++) {
        int length = (int)strcspn(name, ",");
        snprintf(documents[count], DOCUMENT_MAX,
                 "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%.*s\"},\"data\":{\"of\":\"%s\"}}", length,
                 name, text);
        children[count] = (informant_child){documents[count], strncmp(name, "fields-", 7) != 0};
        name += length + (name[length] == ',');
    }
    informant_plugin_kube_children_t done;
    informant_plugin_kube_api_error_t error;
    if (!informant_children(request, children, count, &done, &error)) {
        informant_result result = informant_retryable("%.*s", (int)error.message.len, (const char *)error.message.ptr);
        informant_plugin_kube_api_error_free(&error);
        return result;
    }
    char refused[200] = "";
    for (size_t i = 0; i < done.refused.len; i++) {
        size_t end = strlen(refused);
        snprintf(refused + end, sizeof refused - end, "%s%.*s", i ? "," : "", (int)done.refused.ptr[i].len,
                 (const char *)done.refused.ptr[i].ptr);
    }
    informant_log(INFORMANT_INFO, "written=%u pruned=%u refused=%s skipped=%s", done.written, done.pruned, refused,
                  done.prune_skipped.is_some ? "true" : "false");
    informant_plugin_kube_children_free(&done);
    return informant_ok();
}

static informant_result unrecorded(informant_plugin_recorder_host_error_t *error) {
    informant_result result = informant_permanent("%.*s", (int)error->message.len, (const char *)error->message.ptr);
    informant_plugin_recorder_host_error_free(error);
    return result;
}

static informant_result acts_as(const char *action, const informant_request *request, const char *text) {
    const informant_event *event = &request->event;
    if (!strcmp(action, "children")) return set_children(request, text);
    if (!strcmp(action, "requeue") && event->reason != INFORMANT_PLUGIN_TYPES_REASON_REQUEUE_AFTER) return informant_requeue_after(100);
    bool records = !strncmp(action, "event", 5);
    informant_plugin_recorder_host_error_t error;
    if (records && !informant_record(event, INFORMANT_EVENT_WARNING, "Seen", &error, "%s", text)) return unrecorded(&error);
    const char *failure = records ? action + strlen("event") + (action[5] == '-') : action;
    if (!strcmp(failure, "retryable") && event->attempt == 0) return informant_retryable("%s", text);
    if (!strcmp(failure, "permanent")) return informant_permanent("%s", text);
    return informant_ok();
}

informant_result informant_reconcile(const informant_request *request, json pod) {
    char *text = json_string(json_at(pod, "spec/text")), *action = json_string(json_at(pod, "metadata/annotations/do"));
    bool is_gone = json_is_absent(pod);
    informant_log(INFORMANT_INFO, "reconcile %s %s %u %s%s%s", request->event.key, REASONS[request->event.reason], request->event.attempt,
                  is_gone ? "gone" : "text=", text, request->cache_is_behind ? " behind" : "");
    informant_result result = acts_as(action, request, text);
    free(text), free(action);
    return result;
}

informant_result informant_on_timer(const informant_tick *tick) {
    informant_log(INFORMANT_INFO, "timer %s %s missed=%u attempt=%u", tick->name, tick->scheduled, tick->missed, tick->attempt);
    informant_reference pod = {.api_version = "v1", .kind = "Pod", .namespace_ = "web", .name = "a", .uid = "uid-web-a"};
    informant_plugin_recorder_host_error_t error;
    if (!informant_record_about(&pod, NULL, INFORMANT_EVENT_NORMAL, "Ticked", NULL, &error, "%s has run, attempt %u", tick->name,
                                tick->attempt))
        return unrecorded(&error);
    bool fails = !strcmp(tick->name, "fails") && tick->attempt == 0;
    return fails ? informant_retryable("asked to fail") : informant_ok();
}
