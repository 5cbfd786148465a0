/* Reports containers that crash-loop or were OOM-killed: the example of the Rust SDK in C, with the same reports.
 *
 * The plugin remembers its reports by the uid of the pod and the name of the container until the pod is deleted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "informant.h"

#define CONTAINER(list)                                                                                                             \
    "\"/status/" list "/*/name\",\"/status/" list "/*/restartCount\",\"/status/" list "/*/state/waiting/reason\","                   \
    "\"/status/" list "/*/state/running/startedAt\",\"/status/" list "/*/state/terminated/reason\","                                \
    "\"/status/" list "/*/state/terminated/exitCode\",\"/status/" list "/*/lastState/terminated/reason\","                          \
    "\"/status/" list "/*/lastState/terminated/exitCode\""

const char informant_manifest[] =
    "{\"name\":\"crash-loop-c\",\"version\":\"0.1.0\",\"roles\":[\"event-handler\",\"sync-handler\"],"
    "\"events\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"changedOnly\":true,"
    "\"payload\":{\"fields\":[" CONTAINER("initContainerStatuses") "," CONTAINER("containerStatuses") "]}}]}";

/* The reports about a container. -1: none yet. */
typedef struct reported {
    struct reported *next;
    char *uid, *container;
    bool is_looping;
    int64_t oom_kills, looping_at, oom_killed_at;
} reported;

enum { BUCKETS = 1024 };
static reported *table[BUCKETS];
static int64_t min_restarts = 1;

static reported **bucket(const char *uid) {
    uint32_t hash = 2166136261u;
    for (; *uid; uid++) hash = (hash ^ (uint8_t)*uid) * 16777619u;
    return &table[hash % BUCKETS];
}

/* The entry of a container, or the place for a new one. */
static reported **find(const char *uid, json container) {
    reported **at = bucket(uid);
    while (*at && (strcmp((*at)->uid, uid) || !json_is(container, (*at)->container))) at = &(*at)->next;
    return at;
}

static void forget(reported **at) {
    reported *gone = *at;
    *at = gone->next;
    free(gone->uid);
    free(gone->container);
    free(gone);
}

static char *copy(const char *text) { return strcpy(informant_allocate(strlen(text) + 1), text); }

static char *text_of(json value) {
    char *text = json_string(value);
    return text ? text : copy("");
}

informant_result informant_init(json context) {
    json name, value;
    for (json rest = json_at(context, "config"); json_next_member(&rest, &name, &value);) {
        if (!json_is(name, "min-restarts")) {
            char *unknown = text_of(name);
            informant_result result = informant_permanent("config: unknown key `%s`, expected `min-restarts`", unknown);
            free(unknown);
            return result;
        }
        if (!json_integer(value, &min_restarts) || min_restarts < 0)
            return informant_permanent("config: `min-restarts` is not an integer");
    }
    return informant_ok();
}

static const char *counted(int64_t restarts, char (*text)[40]) {
    snprintf(*text, sizeof *text, "%lld restart%s", (long long)restarts, restarts == 1 ? "" : "s");
    return *text;
}

/* Reports an ended run: the number of restarts before it, and how it ended. */
static void report_run(reported *reported, const char *key, const char *container, int64_t run, json ended, int64_t restarts) {
    if (json_is_absent(ended) || run < 0 || !json_is(json_at(ended, "reason"), "OOMKilled") || run <= reported->oom_killed_at) return;
    reported->oom_killed_at = run;
    reported->oom_kills++;
    char times[40] = "once", count[40];
    if (reported->oom_kills > 1) snprintf(times, sizeof times, "%lld times", (long long)reported->oom_kills);
    informant_log(INFORMANT_WARN, "%s: container %s was OOM-killed: exit code %lld, seen %s, %s", key, container,
                  (long long)json_integer_or(json_at(ended, "exitCode"), 0), times, counted(restarts, &count));
}

static void update(reported *reported, const char *key, json container, const char *name) {
    int64_t restarts = json_integer_or(json_at(container, "restartCount"), 0);
    int64_t last_reported = reported->looping_at > reported->oom_killed_at ? reported->looping_at : reported->oom_killed_at;
    /* After a restart of the kubelet, the count of a container may start again from a lower number. */
    if (restarts < last_reported) {
        reported->is_looping = false;
        reported->oom_kills = 0;
        reported->looping_at = reported->oom_killed_at = -1;
    }
    json now = json_at(container, "state/terminated"), before = json_at(container, "lastState/terminated");
    /* A restart is counted when the container starts. Until then, the last run is the one that has just ended. */
    bool has_begun = !json_is_absent(json_at(container, "state/running")) || !json_is_absent(now);
    int64_t run_before = has_begun ? restarts - 1 : restarts;
    if (run_before < 0) before = (json){NULL, NULL};
    report_run(reported, key, name, run_before, before, restarts);
    report_run(reported, key, name, restarts, now, restarts);
    reported->is_looping = json_is(json_at(container, "state/waiting/reason"), "CrashLoopBackOff") && restarts >= min_restarts;
    if (!reported->is_looping || restarts <= reported->looping_at) return;
    reported->looping_at = restarts;
    char count[40];
    json last = json_is_absent(now) ? before : now;
    if (json_is_absent(last)) {
        informant_log(INFORMANT_WARN, "%s: container %s is crash-looping: %s", key, name, counted(restarts, &count));
        return;
    }
    char *reason = text_of(json_at(last, "reason"));
    informant_log(INFORMANT_WARN, "%s: container %s is crash-looping: %s, last exit code %lld (%s)", key, name,
                  counted(restarts, &count), (long long)json_integer_or(json_at(last, "exitCode"), 0), reason);
    free(reason);
}

static void report_container(const informant_event *event, json container) {
    reported **at = find(event->uid, json_at(container, "name"));
    reported now = *at ? **at : (reported){.looping_at = -1, .oom_killed_at = -1};
    char *name = text_of(json_at(container, "name"));
    update(&now, event->key, container, name);
    bool has_reports = now.is_looping || now.oom_kills || now.looping_at >= 0 || now.oom_killed_at >= 0;
    /* Only containers with reports take memory. */
    if (has_reports && !*at) {
        *at = informant_allocate(sizeof now);
        now.next = NULL;
        now.uid = copy(event->uid);
        now.container = copy(name);
        **at = now;
    } else if (has_reports) {
        **at = now;
    } else if (*at) {
        forget(at);
    }
    free(name);
}

informant_result informant_on_add(const informant_event *event, json pod) {
    static const char *const LISTS[] = {"status/initContainerStatuses", "status/containerStatuses"};
    for (size_t list = 0; list < 2; list++)
        for (json rest = json_at(pod, LISTS[list]), container; json_next(&rest, &container);) report_container(event, container);
    return informant_ok();
}

/* An update is handled like an add: the pod now has this state. */
informant_result informant_on_update(const informant_event *event, json old, json pod) {
    (void)old;
    return informant_on_add(event, pod);
}

informant_result informant_on_delete(const informant_event *event, json last, bool final_state_unknown) {
    (void)last, (void)final_state_unknown;
    for (reported **at = bucket(event->uid); *at;) {
        if (strcmp((*at)->uid, event->uid) == 0)
            forget(at);
        else
            at = &(*at)->next;
    }
    return informant_ok();
}

informant_result informant_on_synced(const informant_synced *synced) {
    long long looping = 0, killed = 0;
    for (size_t at = 0; at < BUCKETS; at++)
        for (reported *reported = table[at]; reported; reported = reported->next) {
            looping += reported->is_looping;
            killed += reported->oom_kills;
        }
    informant_log(INFORMANT_INFO, "source %u is synced; in all sources %lld containers crash-looping, %lld OOM kills seen", synced->source,
                  looping, killed);
    return informant_ok();
}
