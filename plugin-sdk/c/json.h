/* Reads JSON where it lies: nothing is copied and nothing has to be freed but what json_string returns.
 *
 *     json status = json_at(json_of(bytes, length), "status/containerStatuses");
 *     for (json rest = status, one; json_next(&rest, &one);)
 *         if (json_is(json_at(one, "name"), "app")) ...
 *
 * A value that is not there is absent, and everything asked of an absent value is absent, false or the fallback. Documents come from
 * Informant, which has checked their brackets and strings; from others nothing is read beyond their end.
 */
#ifndef INFORMANT_JSON_H
#define INFORMANT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value: where it begins, and where the document ends. Absent: begin is NULL. */
typedef struct {
    const char *begin, *end;
} json;

/* The value that a document is. Empty documents are absent. */
json json_of(const void *bytes, size_t length);

/* The value under a path of member names, as "status/phase". */
json json_at(json value, const char *path);

/* Walks an array: sets `element` to the next one and moves `rest`, which begins as the array itself. False at the end. */
bool json_next(json *rest, json *element);

/* Walks an object: sets `name` (a string) and `member`. As json_next. */
bool json_next_member(json *rest, json *name, json *member);

bool json_is_absent(json value);

/* Whether it is the string `text`, which has no characters that JSON escapes. */
bool json_is(json value, const char *text);

/* Whether it is a whole number; if so, sets `number`. */
bool json_integer(json value, int64_t *number);

int64_t json_integer_or(json value, int64_t fallback);

/* A copy of a string, unescaped and with a 0 at its end, to be freed; "" if it is no string; NULL if there is no memory. */
char *json_string(json value);

#endif
