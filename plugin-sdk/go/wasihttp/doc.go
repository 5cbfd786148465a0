// Package wasihttp sends the requests of net/http by Informant. Import it for its effect: it replaces
// http.DefaultTransport, so http.Get and http.DefaultClient work as usual.
//
//	import _ "informant.example/plugin-sdk/go/wasihttp"
//
// Each request needs a grant in `allow.http` of the plugin's section. A request blocks the instance until the whole
// response has arrived. The deadline of its context bounds the time to connect and to wait, within limits.http-time of
// the section. The body of a response is in memory: it can be read after the handler has closed it, too.
//
// net/http makes a component about 8 MB larger. Natively the package changes nothing: informanttest answers requests.
package wasihttp

import "fmt"

// Code is why there is no response to a request.
type Code string

// The codes. Treat an unknown one as Other.
const (
	// Denied: config.toml does not grant the request. Informant logs the line that would.
	Denied Code = "denied"
	// AddressProhibited: the host resolves to an address that plugins must not reach.
	AddressProhibited Code = "address"
	// Unreachable: the host cannot be resolved or reached.
	Unreachable Code = "connect"
	// TLS failed, or the certificate is not valid.
	TLS Code = "tls"
	// Timeout: no complete response in time.
	Timeout Code = "timeout"
	// TooLarge: the body of the request or of the response is too large.
	TooLarge Code = "too-large"
	// Interrupted: the connection ended before the response was complete.
	Interrupted Code = "interrupted"
	// Invalid: the request is invalid.
	Invalid Code = "invalid"
	// Configuration: a file of header-files in config.toml cannot be used.
	Configuration Code = "configuration"
	// Other is any other error.
	Other Code = "other"
)

// Error is why there is no response to a request. net/http wraps it: use errors.As.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string {
	return e.Message
}

// IsLasting reports whether the same request would fail again until somebody changes the plugin or config.toml. As the
// error of a handler, a lasting one is not retried.
func (e *Error) IsLasting() bool {
	switch e.Code {
	case Denied, AddressProhibited, TooLarge, Invalid:
		return true
	}
	return false
}

// Timeout reports whether there was no complete response in time.
func (e *Error) Timeout() bool {
	return e.Code == Timeout
}

// MayBeDone reports whether the request may have been handled although no response arrived.
func (e *Error) MayBeDone() bool {
	switch e.Code {
	case Timeout, TooLarge, Interrupted, Other:
		return true
	}
	return false
}

func invalid(format string, arguments ...any) *Error {
	return &Error{Invalid, "the request " + fmt.Sprintf(format, arguments...)}
}
