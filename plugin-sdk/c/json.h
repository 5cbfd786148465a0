/* Reads JSON in place: nothing is copied, and only the result of json_string has to be freed.
 *
 *     json status = json_at(json_of(bytes, length), "status/containerStatuses");
 *     for (json rest = status, one; json_next(&rest, &one);)
 *         if (json_is(json_at(one, "name"), "app")) ...
 *
 * A missing value is absent, and every function returns absent, false or the fallback for an absent value. Informant has checked the brackets
 * and strings of its documents. Other documents may give wrong results, but are never read beyond their end.
 */
#ifndef INFORMANT_JSON_H
#define INFORMANT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A value: its begin, and the end of the document. If it is absent, begin is NULL. */
typedef struct {
    const char *begin, *end;
} json;

/* The value of a document. An empty document is absent. */
json json_of(const void *bytes, size_t length);

/* The value at a path of member names, such as "status/phase". */
json json_at(json value, const char *path);

/* Iterates over an array: sets `element` to the next one and advances `rest`, which starts as the array itself. False at the end. */
bool json_next(json *rest, json *element);

/* Iterates over an object like json_next: sets `name` (a string) and `member`. */
bool json_next_member(json *rest, json *name, json *member);

bool json_is_absent(json value);

/* Whether the value is the string `text`, which must not contain characters that JSON escapes. */
bool json_is(json value, const char *text);

/* Whether the value is an integer. If so, sets `number`. */
bool json_integer(json value, int64_t *number);

int64_t json_integer_or(json value, int64_t fallback);

/* A copy of a string, unescaped and terminated with 0, to be freed. "" if the value is not a string. NULL if there is no memory. */
char *json_string(json value);

#ifdef __cplusplus
}
#endif

#endif
