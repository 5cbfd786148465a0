/* HTTP of the conformance kit: a POST request over wasi:http, with the bindings in gen-http/. */
#include "conformance_http.h"

#include <string.h>

#include "http_client.h"

/* Bytes that are read from a body at once, and at most. */
enum { READ_BYTES = 512 };

static http_client_string_t borrowed(const char *text) { return (http_client_string_t){(uint8_t *)text, strlen(text)}; }

static void add_header(wasi_http_types_own_headers_t headers, const char *name, const char *value) {
    http_client_string_t key = borrowed(name);
    wasi_http_types_field_value_t bytes = {(uint8_t *)value, strlen(value)};
    wasi_http_types_header_error_t error;
    if (!wasi_http_types_method_fields_append(wasi_http_types_borrow_fields(headers), &key, &bytes, &error)) __builtin_trap();
}

/* A POST request to http://a.svc/kit. */
static wasi_http_types_own_outgoing_request_t new_request(const char *id) {
    wasi_http_types_own_headers_t headers = wasi_http_types_constructor_fields();
    add_header(headers, "content-type", "text/plain");
    add_header(headers, "x-id", id);
    wasi_http_types_own_outgoing_request_t request = wasi_http_types_constructor_outgoing_request(headers);
    wasi_http_types_borrow_outgoing_request_t of = wasi_http_types_borrow_outgoing_request(request);
    wasi_http_types_method_t method = {.tag = WASI_HTTP_TYPES_METHOD_POST};
    wasi_http_types_scheme_t scheme = {.tag = WASI_HTTP_TYPES_SCHEME_HTTP};
    http_client_string_t authority = borrowed("a.svc"), path = borrowed("/kit");
    bool ok = wasi_http_types_method_outgoing_request_set_method(of, &method) && wasi_http_types_method_outgoing_request_set_scheme(of, &scheme) &&
              wasi_http_types_method_outgoing_request_set_authority(of, &authority) &&
              wasi_http_types_method_outgoing_request_set_path_with_query(of, &path);
    if (!ok) __builtin_trap();
    return request;
}

/* Writes a body of at most 4,096 bytes, and ends it. */
static void write_body(wasi_http_types_own_outgoing_body_t body, const char *text) {
    http_client_list_u8_t bytes = {(uint8_t *)text, strlen(text)};
    wasi_http_types_own_output_stream_t stream;
    wasi_io_streams_stream_error_t broken;
    wasi_http_types_error_code_t error;
    if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(body), &stream)) __builtin_trap();
    /* If the other side reads no further, the response has the reason. */
    if (!wasi_io_streams_method_output_stream_blocking_write_and_flush(wasi_io_streams_borrow_output_stream(stream), &bytes, &broken))
        wasi_io_streams_stream_error_free(&broken);
    wasi_io_streams_output_stream_drop_own(stream);
    if (!wasi_http_types_static_outgoing_body_finish(body, NULL, &error)) wasi_http_types_error_code_free(&error);
}

/* Logs the status and the beginning of the body. */
static void log_response(wasi_http_types_own_incoming_response_t response) {
    wasi_http_types_borrow_incoming_response_t of = wasi_http_types_borrow_incoming_response(response);
    wasi_http_types_own_incoming_body_t body;
    wasi_http_types_own_input_stream_t stream;
    if (!wasi_http_types_method_incoming_response_consume(of, &body)) __builtin_trap();
    if (!wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(body), &stream)) __builtin_trap();
    char text[READ_BYTES];
    size_t length = 0;
    http_client_list_u8_t chunk;
    wasi_io_streams_stream_error_t end;
    while (length < READ_BYTES &&
           wasi_io_streams_method_input_stream_blocking_read(wasi_io_streams_borrow_input_stream(stream), READ_BYTES - length, &chunk, &end)) {
        memcpy(text + length, chunk.ptr, chunk.len);
        length += chunk.len;
        http_client_list_u8_free(&chunk);
    }
    informant_log(INFORMANT_INFO, "answered=%u %.*s", wasi_http_types_method_incoming_response_status(of), (int)length, text);
    wasi_io_streams_input_stream_drop_own(stream);
    wasi_http_types_incoming_body_drop_own(body);
    wasi_http_types_incoming_response_drop_own(response);
}

static void log_failure(wasi_http_types_error_code_t *error) {
    bool is_denied = error->tag == WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED;
    informant_log(INFORMANT_INFO, "failed=%s", is_denied ? "denied" : "other");
    wasi_http_types_error_code_free(error);
}

void calls_service(const informant_event *event, const char *text) {
    wasi_http_types_own_outgoing_request_t request = new_request(event->name);
    wasi_http_types_own_outgoing_body_t body;
    wasi_http_outgoing_handler_own_future_incoming_response_t future;
    wasi_http_types_error_code_t error;
    if (!wasi_http_types_method_outgoing_request_body(wasi_http_types_borrow_outgoing_request(request), &body)) __builtin_trap();
    if (!wasi_http_outgoing_handler_handle(request, NULL, &future, &error)) {
        wasi_http_types_outgoing_body_drop_own(body);
        log_failure(&error);
        return;
    }
    write_body(body, text);
    wasi_http_types_borrow_future_incoming_response_t of = wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t answered = wasi_http_types_method_future_incoming_response_subscribe(of);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(answered));
    wasi_io_poll_pollable_drop_own(answered);
    wasi_http_types_result_result_own_incoming_response_error_code_void_t answer;
    if (!wasi_http_types_method_future_incoming_response_get(of, &answer) || answer.is_err) __builtin_trap();
    if (answer.val.ok.is_err) log_failure(&answer.val.ok.val.err);
    else log_response(answer.val.ok.val.ok);
    wasi_http_types_future_incoming_response_drop_own(future);
}
