package informant

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// Result is what a handler returns in addition to its error. The zero Result means done.
type Result struct {
	// RequeueAfter asks for another call for this object after this time, with ReasonRequeueAfter. The next call for the
	// object cancels it. Informant waits at least 100 ms.
	RequeueAfter time.Duration
}

// milliseconds returns nil if the handler asks for no other call.
func (r Result) milliseconds() *uint32 {
	if r.RequeueAfter == 0 {
		return nil
	}
	after := wholeMilliseconds(r.RequeueAfter)
	return &after
}

// wholeMilliseconds rounds up. Informant waits for at most 49 days.
func wholeMilliseconds(d time.Duration) uint32 {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	return uint32(min(ms, math.MaxUint32))
}

// terminalError is an error that a retry cannot repair.
type terminalError struct {
	err error
}

func (e *terminalError) Error() string { return e.err.Error() }

func (e *terminalError) Unwrap() error { return e.err }

// TerminalError wraps an error that a retry cannot repair: the event becomes a dead letter. It returns nil for nil.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports whether Informant would not retry after this error: it is a [TerminalError], or a call to
// Informant that would be refused again.
func IsTerminal(err error) bool {
	return err != nil && failureOf(err).Kind == host.Permanent
}

type retryAfterError struct {
	after time.Duration
	err   error
}

func (e *retryAfterError) Error() string { return e.err.Error() }

func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter wraps an error after which Informant retries when this time has passed. It returns nil for nil.
func RetryAfter(after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{after, err}
}

// lasting is an error of a call to Informant, or of an HTTP request.
type lasting interface {
	error
	// IsLasting reports whether the same call would fail again until somebody changes the plugin or config.toml.
	IsLasting() bool
}

// failureOf decides how Informant handles an error.
func failureOf(err error) *host.Failure {
	if err == nil {
		return nil
	}
	message := err.Error()
	var later *retryAfterError
	var terminal *terminalError
	var api *APIError
	var refused lasting
	switch {
	case errors.As(err, &later):
		return &host.Failure{Kind: host.RetryAfter, Message: message, AfterMS: wholeMilliseconds(later.after)}
	case errors.As(err, &terminal):
		return &host.Failure{Kind: host.Permanent, Message: message}
	case errors.As(err, &api) && api.RetryAfter > 0:
		return &host.Failure{Kind: host.RetryAfter, Message: message, AfterMS: wholeMilliseconds(api.RetryAfter)}
	case errors.As(err, &refused) && refused.IsLasting():
		return &host.Failure{Kind: host.Permanent, Message: message}
	default:
		return &host.Failure{Kind: host.Retryable, Message: message}
	}
}

func decodeInto(document []byte, into any) error {
	if err := json.Unmarshal(document, into); err != nil {
		return fmt.Errorf("the object does not match its type: %w", err)
	}
	return nil
}
