#include "json.h"

#include <stdlib.h>
#include <string.h>

static const json ABSENT = {NULL, NULL};

static const char *blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    return at;
}

/* The end of the string that begins at `at`. */
static const char *past_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* The end of the value that begins at `at`. */
static const char *past_value(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = past_string(at, end);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth == 0) {
            while (at < end && !strchr(",]} \n\t\r", *at)) at++;
        } else {
            at++;
        }
        if (depth <= 0) return at;
    }
    return end;
}

json json_of(const void *bytes, size_t length) {
    const char *end = (const char *)bytes + length;
    const char *begin = blank(bytes, end);
    return begin < end ? (json){begin, end} : ABSENT;
}

bool json_is_absent(json value) { return value.begin == NULL; }

/* While an array or object is iterated over, `begin` points to its bracket or to the end of the previous element. */
static const char *next(json *rest, char open) {
    if (json_is_absent(*rest)) return NULL;
    const char *at = blank(rest->begin, rest->end);
    if (at >= rest->end || (*at != open && *at != ',')) return NULL;
    at = blank(at + 1, rest->end);
    if (at >= rest->end || *at == ']' || *at == '}') return NULL;
    return at;
}

bool json_next(json *rest, json *element) {
    const char *at = next(rest, '[');
    if (at == NULL) return false;
    *element = (json){at, rest->end};
    rest->begin = past_value(at, rest->end);
    return true;
}

bool json_next_member(json *rest, json *name, json *member) {
    const char *at = next(rest, '{');
    if (at == NULL || *at != '"') return false;
    *name = (json){at, rest->end};
    at = blank(past_string(at, rest->end), rest->end);
    if (at >= rest->end || *at != ':') return false;
    at = blank(at + 1, rest->end);
    if (at >= rest->end) return false;
    *member = (json){at, rest->end};
    rest->begin = past_value(at, rest->end);
    return true;
}

static bool is_text(json value, const char *text, size_t length) {
    if (json_is_absent(value) || *value.begin != '"') return false;
    size_t left = (size_t)(value.end - value.begin) - 1;
    return left > length && memcmp(value.begin + 1, text, length) == 0 && value.begin[1 + length] == '"';
}

bool json_is(json value, const char *text) { return is_text(value, text, strlen(text)); }

json json_at(json value, const char *path) {
    while (*path != 0) {
        size_t length = strcspn(path, "/");
        json rest = value, name, member, found = ABSENT;
        while (json_next_member(&rest, &name, &member)) {
            if (is_text(name, path, length)) {
                found = member;
                break;
            }
        }
        if (json_is_absent(found)) return ABSENT;
        value = found;
        path += length + (path[length] == '/');
    }
    return value;
}

bool json_integer(json value, int64_t *number) {
    if (json_is_absent(value)) return false;
    const char *at = value.begin, *end = past_value(at, value.end);
    bool negative = *at == '-';
    at += negative;
    if (at >= end) return false;
    int64_t found = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || found > (INT64_MAX - 9) / 10) return false;
        found = found * 10 + (*at - '0');
    }
    *number = negative ? -found : found;
    return true;
}

int64_t json_integer_or(json value, int64_t fallback) {
    int64_t number;
    return json_integer(value, &number) ? number : fallback;
}

/* The code unit after \u at `at`, or the replacement character if it is invalid. */
static uint32_t hexadecimal(const char *at, const char *end) {
    uint32_t unit = 0;
    if (end - at < 4) return 0xfffd;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return 0xfffd;
        unit = unit * 16 + (uint32_t)digit;
    }
    return unit;
}

static char *put_utf8(char *to, uint32_t code) {
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

char *json_string(json value) {
    bool is_string = !json_is_absent(value) && *value.begin == '"';
    const char *at = is_string ? value.begin + 1 : "";
    const char *end = is_string ? past_string(value.begin, value.end) - 1 : at;
    char *text = malloc((size_t)(end - at) + 1), *to = text;
    if (text == NULL) return NULL;
    while (at < end) {
        if (*at != '\\' || at + 1 >= end) {
            *to++ = *at++;
            continue;
        }
        char escape = at[1];
        at += 2;
        if (escape != 'u') {
            static const char from[] = "bfnrt", into[] = "\b\f\n\r\t";
            const char *known = strchr(from, escape);
            *to++ = known ? into[known - from] : escape;
            continue;
        }
        uint32_t code = hexadecimal(at, end);
        at += end - at < 4 ? end - at : 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
            uint32_t low = hexadecimal(at + 2, end);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
        }
        to = put_utf8(to, code);
    }
    *to = 0;
    return text;
}
