package wasihttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	outgoing "informant.example/plugin-sdk/go/internal/gen/http/imports/wasi_http_outgoing_handler"
	types "informant.example/plugin-sdk/go/internal/gen/http/imports/wasi_http_types"
	streams "informant.example/plugin-sdk/go/internal/gen/http/imports/wasi_io_streams"
	wit "informant.example/plugin-sdk/go/internal/wit/types"
)

func init() {
	http.DefaultTransport = Transport{}
}

// Transport is an http.RoundTripper over wasi:http.
type Transport struct{}

var _ http.RoundTripper = Transport{}

const (
	readBytes = 64 << 10
	// Informant accepts as many at once.
	writeBytes = 4 << 10
)

// RoundTrip sends a request, and reads its whole response.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	content, err := readAll(request)
	if err != nil {
		return nil, err
	}
	sent, err := newRequest(request, content)
	if err != nil {
		return nil, err
	}
	defer sent.Drop()
	var body *types.OutgoingBody
	if len(content) > 0 {
		taken := sent.Body()
		if taken.IsErr() {
			return nil, invalid("has an invalid content-length")
		}
		body = taken.Ok()
		defer body.Drop()
	}
	handled := outgoing.Handle(sent, optionsOf(request))
	if handled.IsErr() {
		return nil, errorOf(request, handled.Err())
	}
	pending := handled.Ok()
	defer pending.Drop()
	// If the body cannot be written, the response has the reason.
	var unwritten *types.ErrorCode
	if body != nil {
		unwritten = write(body, content)
	}
	ready := pending.Subscribe()
	ready.Block()
	ready.Drop()
	answer := pending.Get()
	if !answer.IsSome() || answer.Some().IsErr() {
		return nil, errorOf(request, types.MakeErrorCodeInternalError(wit.None[string]()))
	}
	result := answer.Some().Ok()
	if result.IsErr() {
		return nil, errorOf(request, result.Err())
	}
	incoming := result.Ok()
	defer incoming.Drop()
	if unwritten != nil {
		return nil, errorOf(request, *unwritten)
	}
	return responseOf(request, incoming)
}

func readAll(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer request.Body.Close()
	return io.ReadAll(request.Body)
}

func newRequest(request *http.Request, content []byte) (*types.OutgoingRequest, error) {
	headers, err := headersOf(request, content)
	if err != nil {
		return nil, err
	}
	sent := types.MakeOutgoingRequest(headers)
	if sent.SetMethod(methodOf(request.Method)).IsErr() {
		sent.Drop()
		return nil, invalid("has an invalid method: %q", request.Method)
	}
	authority := request.Host
	if authority == "" {
		authority = request.URL.Host
	}
	isInvalid := sent.SetScheme(wit.Some(schemeOf(request.URL.Scheme))).IsErr() ||
		sent.SetAuthority(wit.Some(authority)).IsErr() ||
		sent.SetPathWithQuery(wit.Some(request.URL.RequestURI())).IsErr()
	if isInvalid {
		sent.Drop()
		return nil, invalid("has an invalid URL: %s", request.URL)
	}
	return sent, nil
}

// Set by the host, or from other fields of the request.
var ownHeaders = []string{"Host", "Content-Length", "Connection", "Transfer-Encoding"}

func headersOf(request *http.Request, content []byte) (*types.Fields, error) {
	headers := types.MakeFields()
	for name, values := range request.Header {
		if slices.Contains(ownHeaders, name) {
			continue
		}
		for _, value := range values {
			if headers.Append(name, []byte(value)).IsErr() {
				headers.Drop()
				return nil, invalid("cannot have the header %s", name)
			}
		}
	}
	if len(content) > 0 {
		length := []byte(strconv.Itoa(len(content)))
		if headers.Set("content-length", [][]byte{length}).IsErr() {
			headers.Drop()
			return nil, invalid("cannot have a body")
		}
	}
	return headers, nil
}

func methodOf(name string) types.Method {
	switch name {
	case "", http.MethodGet:
		return types.MakeMethodGet()
	case http.MethodHead:
		return types.MakeMethodHead()
	case http.MethodPost:
		return types.MakeMethodPost()
	case http.MethodPut:
		return types.MakeMethodPut()
	case http.MethodDelete:
		return types.MakeMethodDelete()
	case http.MethodOptions:
		return types.MakeMethodOptions()
	case http.MethodPatch:
		return types.MakeMethodPatch()
	}
	return types.MakeMethodOther(name)
}

func schemeOf(name string) types.Scheme {
	switch strings.ToLower(name) {
	case "https":
		return types.MakeSchemeHttps()
	case "http":
		return types.MakeSchemeHttp()
	}
	return types.MakeSchemeOther(name)
}

// optionsOf bounds the phases of a request by its deadline. Goroutines do not run meanwhile, so nothing can cancel it.
func optionsOf(request *http.Request) wit.Option[*types.RequestOptions] {
	deadline, hasDeadline := request.Context().Deadline()
	if !hasDeadline {
		return wit.None[*types.RequestOptions]()
	}
	left := wit.Some(uint64(max(time.Until(deadline), time.Millisecond)))
	options := types.MakeRequestOptions()
	// A host that cannot bound a phase still has limits of its own.
	options.SetConnectTimeout(left)
	options.SetFirstByteTimeout(left)
	options.SetBetweenBytesTimeout(left)
	return wit.Some(options)
}

func write(body *types.OutgoingBody, content []byte) *types.ErrorCode {
	// Only the first call succeeds, and this is it.
	if opened := body.Write(); opened.IsOk() {
		stream := opened.Ok()
		for chunk := range slices.Chunk(content, writeBytes) {
			if failed := stream.BlockingWriteAndFlush(chunk); failed.IsErr() {
				// The other side reads no further; the response has the reason.
				dropError(failed.Err())
				stream.Drop()
				return nil
			}
		}
		stream.Drop()
	}
	if finished := types.OutgoingBodyFinish(body, wit.None[*types.Fields]()); finished.IsErr() {
		code := finished.Err()
		return &code
	}
	return nil
}

func dropError(failed streams.StreamError) {
	if failed.Tag() == streams.StreamError_LastOperationFailed {
		failed.LastOperationFailed().Drop()
	}
}

func responseOf(request *http.Request, incoming *types.IncomingResponse) (*http.Response, error) {
	status := int(incoming.Status())
	headers := incoming.Headers()
	header := http.Header{}
	for _, entry := range headers.Entries() {
		header.Add(strings.Clone(entry.F0), string(entry.F1))
	}
	headers.Drop()
	content, code := read(incoming)
	if code != nil {
		return nil, errorOf(request, *code)
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(content)),
		ContentLength: int64(len(content)),
		Request:       request,
	}, nil
}

func read(incoming *types.IncomingResponse) ([]byte, *types.ErrorCode) {
	consumed := incoming.Consume()
	if consumed.IsErr() {
		return nil, nil
	}
	body := consumed.Ok()
	defer body.Drop()
	opened := body.Stream()
	if opened.IsErr() {
		return nil, nil
	}
	stream := opened.Ok()
	defer stream.Drop()
	var content []byte
	for {
		chunk := stream.BlockingRead(readBytes)
		if chunk.IsOk() {
			content = append(content, chunk.Ok()...)
			continue
		}
		if chunk.Err().Tag() == streams.StreamError_Closed {
			return content, nil
		}
		failed := chunk.Err().LastOperationFailed()
		defer failed.Drop()
		if code := types.HttpErrorCode(failed); code.IsSome() {
			known := code.Some()
			return nil, &known
		}
		unknown := types.MakeErrorCodeInternalError(wit.Some(strings.Clone(failed.ToDebugString())))
		return nil, &unknown
	}
}

func errorOf(request *http.Request, code types.ErrorCode) error {
	kind := kindOf(code)
	origin := request.URL.Scheme + "://" + request.URL.Host
	switch kind {
	case Denied:
		return &Error{kind, origin + " is not granted (allow.http): Informant's log has the line to add"}
	case Other:
		detail := fmt.Sprintf("error %d of wasi:http", code.Tag())
		if code.Tag() == types.ErrorCode_InternalError && code.InternalError().IsSome() {
			detail = strings.Clone(code.InternalError().Some())
		}
		return &Error{kind, fmt.Sprintf("the request to %s failed: %s", origin, detail)}
	}
	return &Error{kind, fmt.Sprintf("the request to %s failed: %s", origin, descriptions[kind])}
}

func kindOf(code types.ErrorCode) Code {
	switch code.Tag() {
	case types.ErrorCode_HttpRequestDenied:
		return Denied
	case types.ErrorCode_DestinationIpProhibited:
		return AddressProhibited
	case types.ErrorCode_DnsTimeout, types.ErrorCode_DnsError, types.ErrorCode_DestinationNotFound,
		types.ErrorCode_DestinationUnavailable, types.ErrorCode_DestinationIpUnroutable,
		types.ErrorCode_ConnectionRefused, types.ErrorCode_ConnectionTimeout:
		return Unreachable
	case types.ErrorCode_TlsProtocolError, types.ErrorCode_TlsCertificateError, types.ErrorCode_TlsAlertReceived:
		return TLS
	case types.ErrorCode_ConnectionReadTimeout, types.ErrorCode_ConnectionWriteTimeout,
		types.ErrorCode_HttpResponseTimeout:
		return Timeout
	case types.ErrorCode_HttpRequestBodySize, types.ErrorCode_HttpResponseBodySize:
		return TooLarge
	case types.ErrorCode_HttpResponseIncomplete, types.ErrorCode_ConnectionTerminated:
		return Interrupted
	case types.ErrorCode_HttpRequestMethodInvalid, types.ErrorCode_HttpRequestUriInvalid:
		return Invalid
	case types.ErrorCode_ConfigurationError:
		return Configuration
	}
	return Other
}

var descriptions = map[Code]string{
	AddressProhibited: "the host has an address that plugins must not reach",
	Unreachable:       "the host cannot be reached",
	TLS:               "TLS failed, or the certificate is not valid",
	Timeout:           "no complete response in time",
	TooLarge:          "the body is too large (limits.http-request, limits.http-response)",
	Interrupted:       "the connection ended too early",
	Invalid:           "the request is invalid",
	Configuration:     "a file of header-files cannot be used",
}
