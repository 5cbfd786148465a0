package informant

import (
	"fmt"

	"informant.example/plugin-sdk/go/internal/host"
)

// Reason is why a call is made.
type Reason string

// The reasons. Treat an unknown one as Watch.
const (
	// ReasonInitial is for objects of the first list, or of the cache that a new plugin receives.
	ReasonInitial Reason = "initial"
	// ReasonWatch is a change that the API server reported.
	ReasonWatch Reason = "watch"
	// ReasonRelist is a change found by a new list after a watch was lost.
	ReasonRelist Reason = "relist"
	// ReasonResync means that the resync period has passed. The object has not changed.
	ReasonResync Reason = "resync"
	// ReasonReplay means that the plugin receives the whole cache again.
	ReasonReplay Reason = "replay"
	// ReasonRequeue means that an operator redelivered a dead letter.
	ReasonRequeue Reason = "requeue"
	// ReasonReconfigured means that the selector, namespaces or fields of the informer changed.
	ReasonReconfigured Reason = "reconfigured"
	// ReasonRestored means that the API server was restored to an older state.
	ReasonRestored Reason = "restored"
	// ReasonRequeueAfter means that the delay has passed that the handler returned.
	ReasonRequeueAfter Reason = "requeue-after"
	// ReasonTrigger means that an operator asked for the call.
	ReasonTrigger Reason = "trigger"
	// ReasonRelated means that another object changed that belongs to this one.
	ReasonRelated Reason = "related"
	// ReasonTakeover means that another Informant process was responsible for the object before.
	ReasonTakeover Reason = "takeover"
	// ReasonOther stands for the reasons of later versions.
	ReasonOther Reason = "other"
)

// Event is the object that a call is about, and why the call is made. It formats as namespace/name, or as the name of a
// cluster-scoped object.
type Event struct {
	// Source is the number of the source that the object comes from. Do not store it: it differs from process to process.
	Source uint32
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
	// UID is empty if it is not known.
	UID string
	// ResourceVersion is opaque: compare it only for equality.
	ResourceVersion string
	Reason          Reason
	// Attempt is 0 at first, then one more for each retry.
	Attempt int
	// FinalStateUnknown is for OnDelete: the object was deleted while no watch was open, and may have changed after the
	// last state that the cache knew.
	FinalStateUnknown bool

	old any
}

// String returns namespace/name, or the name of a cluster-scoped object.
func (e *Event) String() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// ID names the state that the event is about. It is the same in each attempt: an idempotency key for other services.
func (e *Event) ID() string {
	return e.UID + "/" + e.ResourceVersion
}

// Info returns the informer, cluster, type and resource of the object.
func (e *Event) Info() (SourceInfo, error) {
	return constantSource(e.Source)
}

// OldOf returns the previous state of the object in an update of a kind that was registered with [Old]. It is nil if
// the state is no longer known. T is the type of the registration.
func OldOf[T any](e *Event) *T {
	if e.old == nil {
		return nil
	}
	old, isT := e.old.(*T)
	if !isT {
		panic(fmt.Sprintf("informant.OldOf: the kind is registered with the type %T, not %T", e.old, old))
	}
	return old
}

func newEvent(about host.ObjectRef, call host.Call) *Event {
	return &Event{
		Source:          about.Source,
		Namespace:       about.Namespace,
		Name:            about.Name,
		UID:             about.UID,
		ResourceVersion: about.ResourceVersion,
		Reason:          Reason(host.Name(host.Reasons, call.Reason)),
		Attempt:         int(call.Attempt),
	}
}

// Synced is the source whose objects the handlers have received.
type Synced struct {
	// Source is the number of the source.
	Source uint32
	Reason Reason
	// Attempt is 0 at first, then one more for each retry.
	Attempt int
}

// Info returns the informer, cluster, type and resource of the source.
func (s *Synced) Info() (SourceInfo, error) {
	return constantSource(s.Source)
}

// Object is a JSON document. A kind registered with this type receives whole objects, unparsed.
type Object []byte

// Decode parses the document.
func (o Object) Decode(into any) error {
	return decodeInto(o, into)
}

// MarshalJSON returns the document.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("null"), nil
	}
	return o, nil
}

// UnmarshalJSON keeps the document.
func (o *Object) UnmarshalJSON(document []byte) error {
	*o = append((*o)[:0], document...)
	return nil
}

// String returns the document as text.
func (o Object) String() string {
	return string(o)
}
