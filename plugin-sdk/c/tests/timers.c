/* Has two timers, and logs "NAME SCHEDULED missed=N attempt=N" at each run. With `event = true` in its config, it then
 * records an Event about a pod. With `fail = "retry"` or "permanent", each run fails so at its end; with "trap", it
 * traps. */
#include "informant.h"

const char informant_manifest[] = "{\"name\":\"timers-c\",\"version\":\"1\",\"roles\":[\"timer-handler\"],"
                                  "\"timers\":[{\"name\":\"poll\",\"every\":\"10s\"},"
                                  "{\"name\":\"report\",\"cron\":\"0 8 * * *\",\"zone\":\"Europe/Berlin\"}]}";

static enum { OK, RETRY, PERMANENT, TRAP } end;
static bool records;

informant_result informant_init(json context) {
    json fail = json_at(context, "config/fail"), event = json_at(context, "config/event");
    end = json_is(fail, "retry") ? RETRY : json_is(fail, "permanent") ? PERMANENT : json_is(fail, "trap") ? TRAP : OK;
    records = !json_is_absent(event) && *event.begin == 't';
    return informant_ok();
}

informant_result informant_on_timer(const informant_tick *tick) {
    informant_log(INFORMANT_INFO, "%s %s missed=%u attempt=%u", tick->name, tick->scheduled, tick->missed, tick->attempt);
    informant_reference pod = {.api_version = "v1", .kind = "Pod", .namespace_ = "web", .name = "a", .uid = "uid-a"};
    informant_plugin_recorder_host_error_t error;
    if (records && !informant_record_about(&pod, NULL, INFORMANT_EVENT_WARNING, "Ticked", NULL, &error, "%s has run", tick->name)) {
        informant_result result = informant_permanent("%.*s", (int)error.message.len, (const char *)error.message.ptr);
        informant_plugin_recorder_host_error_free(&error);
        return result;
    }
    switch (end) {
    case RETRY: return informant_retryable("asked to fail");
    case PERMANENT: return informant_permanent("asked to fail");
    case TRAP: __builtin_trap();
    case OK: break;
    }
    return informant_ok();
}
