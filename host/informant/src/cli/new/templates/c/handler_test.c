/* Compiled natively, with the handler and without the SDK's informant.c: `make test`. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "{{name}}.c"

static char logged[256];

/* Replaces the function of the SDK. */
void informant_log(informant_level level, const char *format, ...) {
    (void)level;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(logged, sizeof logged, format, arguments);
    va_end(arguments);
}

informant_result informant_ok(void) { return (informant_result){INFORMANT_OK, NULL, 0}; }

static int is_greeted_with_its_phase(void) {
    static const char POD[] = "{\"metadata\":{\"namespace\":\"web\",\"name\":\"a\"},\"status\":{\"phase\":\"Running\"}}";
    informant_event event = {.key = "web/a"};
    informant_result result = informant_on_add(&event, json_of(POD, sizeof POD - 1));
    return result.outcome == INFORMANT_OK && strcmp(logged, "web/a is Running") == 0;
}

int main(void) {
    int ok = is_greeted_with_its_phase();
    printf("a pod is greeted with its phase: %s\n", ok ? "ok" : logged);
    return !ok;
}
