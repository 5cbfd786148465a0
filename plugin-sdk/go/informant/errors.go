package informant

import (
	"errors"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// ErrorCode is why a call of Store, KV, Metrics or Recorder failed.
type ErrorCode string

// The codes. Treat an unknown one as CodeOther.
const (
	CodeDenied          ErrorCode = "denied"
	CodeNotHere         ErrorCode = "not-here"
	CodeNotReady        ErrorCode = "not-ready"
	CodeNotFound        ErrorCode = "not-found"
	CodeUnknownInformer ErrorCode = "unknown-informer"
	CodeUnknownIndex    ErrorCode = "unknown-index"
	CodeTooLarge        ErrorCode = "too-large"
	CodeExhausted       ErrorCode = "exhausted"
	CodeConflict        ErrorCode = "conflict"
	CodeUnavailable     ErrorCode = "unavailable"
	CodeUnsupported     ErrorCode = "unsupported"
	CodeInvalid         ErrorCode = "invalid"
	CodeOther           ErrorCode = "other"
)

// HostError is why a call of Store, KV, Metrics or Recorder failed.
type HostError struct {
	Code    ErrorCode
	Message string
}

func (e *HostError) Error() string {
	return e.Message
}

// IsLasting reports whether the same call would fail again until somebody changes the plugin or config.toml. As the
// error of a handler, a lasting one is not retried.
func (e *HostError) IsLasting() bool {
	switch e.Code {
	case CodeDenied, CodeNotHere, CodeUnknownInformer, CodeUnknownIndex, CodeTooLarge, CodeUnsupported, CodeInvalid:
		return true
	}
	return false
}

// hostError returns nil for nil, as an error.
func hostError(err *host.Error) error {
	if err == nil {
		return nil
	}
	return &HostError{ErrorCode(host.Name(host.ErrorCodes, err.Code)), err.Message}
}

// APICode is why a call of Kube failed.
type APICode string

// The codes. Treat an unknown one as APIOther.
const (
	APIDenied          APICode = "denied"
	APINotHere         APICode = "not-here"
	APIForbidden       APICode = "forbidden"
	APIUnauthorized    APICode = "unauthorized"
	APINotFound        APICode = "not-found"
	APIAlreadyExists   APICode = "already-exists"
	APIConflict        APICode = "conflict"
	APIInvalid         APICode = "invalid"
	APIExpired         APICode = "expired"
	APITooLarge        APICode = "too-large"
	APITooManyRequests APICode = "too-many-requests"
	APITimeout         APICode = "timeout"
	APIUnavailable     APICode = "unavailable"
	APIUnsupported     APICode = "unsupported"
	APIOther           APICode = "other"
)

// APIError is why a call of Kube failed.
type APIError struct {
	Code APICode
	// Status is the HTTP status of the API server's response, 0 without one.
	Status int
	// Reason is that of the API server's Status, such as AlreadyExists. Empty without one.
	Reason  string
	Message string
	// RetryAfter is how long the API server asks to wait. As the error of a handler, it sets the delay of the retry.
	RetryAfter time.Duration
}

func (e *APIError) Error() string {
	return e.Message
}

// IsLasting reports whether the same call would fail again until somebody changes the plugin or config.toml. As the
// error of a handler, a lasting one is not retried.
func (e *APIError) IsLasting() bool {
	switch e.Code {
	case APIDenied, APINotHere, APIInvalid, APITooLarge, APIUnsupported:
		return true
	}
	return false
}

// MayBeDone reports whether a write may have succeeded although no response arrived.
func (e *APIError) MayBeDone() bool {
	return e.Code == APITimeout || e.Code == APIUnavailable
}

// IsNotFound reports whether an error means that the object, or the resource, does not exist.
func IsNotFound(err error) bool {
	var refused *HostError
	return hasCode(err, APINotFound) || errors.As(err, &refused) && refused.Code == CodeNotFound
}

// IsAlreadyExists reports whether an error means that the name is taken.
func IsAlreadyExists(err error) bool {
	return hasCode(err, APIAlreadyExists)
}

// IsConflict reports whether an error means that the object has another resource version or uid than the call expects,
// or that another manager owns the field.
func IsConflict(err error) bool {
	return hasCode(err, APIConflict)
}

func hasCode(err error, code APICode) bool {
	var refused *APIError
	return errors.As(err, &refused) && refused.Code == code
}

// apiError returns nil for nil, as an error.
func apiError(err *host.APIError) error {
	if err == nil {
		return nil
	}
	return &APIError{
		Code:       APICode(host.Name(host.APIErrorCodes, err.Code)),
		Status:     int(err.Status),
		Reason:     err.Reason,
		Message:    err.Message,
		RetryAfter: time.Duration(err.RetryAfterMS) * time.Millisecond,
	}
}
