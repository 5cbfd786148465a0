package informant

import (
	"encoding/json"
	"fmt"

	"informant.example/plugin-sdk/go/internal/host"
)

// EventType is the type of a Kubernetes Event.
type EventType string

// The types.
const (
	Normal  EventType = "Normal"
	Warning EventType = "Warning"
)

// Recorder records Kubernetes Events, which kubectl describe shows. Informant sends them once the call has succeeded,
// and none of them if it fails: equal ones as a series, and of each object a limited number. An Event that is lost
// fails no call. A call records at most 100.
//
//	ctx.Recorder.Eventf(e, informant.Warning, "Crashing", "%d restarts", count)
//	ctx.Recorder.WithAction("Evict").WithRelated(node).Event(pod, informant.Normal, "Moved", "the node is drained")
//
// It needs `events = true` in `allow` of the plugin's section.
//
// An object is an [*Event] or [*Request], which stands for its object, an [Item] of the cache, an [ObjectReference], or
// any value whose JSON has apiVersion, kind and metadata.name, such as an [Object] and the types of k8s.io/api. Unless
// it is known, its cluster is that of the object that the call is about.
type Recorder struct {
	about   about
	action  string
	related any
}

// WithAction returns a recorder of Events with this action, what was done, in CamelCase. By default it is the reason.
func (r Recorder) WithAction(action string) Recorder {
	r.action = action
	return r
}

// WithRelated returns a recorder of Events with this second object.
func (r Recorder) WithRelated(object any) Recorder {
	r.related = object
	return r
}

// Event records an Event about an object. The reason is in CamelCase, at most 128 bytes. The note is for people:
// Informant cuts it after 1,024 bytes.
func (r Recorder) Event(object any, eventType EventType, reason, note string) error {
	event := host.Event{Reason: reason, Action: r.action, Note: note}
	switch eventType {
	case Normal:
		event.Type = host.NormalEvent
	case Warning:
		event.Type = host.WarningEvent
	default:
		return &HostError{CodeInvalid, fmt.Sprintf("an Event is Normal or Warning, not %q", eventType)}
	}
	if event.Action == "" {
		event.Action = reason
	}
	regarding, err := r.reference(object)
	if err != nil {
		return err
	}
	event.Regarding = host.Reference(regarding)
	if r.related != nil {
		related, err := r.reference(r.related)
		if err != nil {
			return err
		}
		event.Related = (*host.Reference)(&related)
	}
	return hostError(hosted().RecordEvent(event))
}

// Eventf is Event, with a note that is formatted as by [fmt.Sprintf].
func (r Recorder) Eventf(object any, eventType EventType, reason, format string, arguments ...any) error {
	return r.Event(object, eventType, reason, fmt.Sprintf(format, arguments...))
}

// ObjectReference names an object for a [Recorder]. It formats as "Pod web/a".
type ObjectReference struct {
	// Cluster is empty for that of the object that the call is about.
	Cluster    string
	APIVersion string
	Kind       string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
	// UID is empty if it is not known.
	UID string
}

// String returns the kind, and namespace/name, or the name of a cluster-scoped object.
func (r ObjectReference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// referrer knows more of its object than its JSON has.
type referrer interface {
	reference() (ObjectReference, error)
}

func (r ObjectReference) reference() (ObjectReference, error) {
	return r, nil
}

func (e *Event) reference() (ObjectReference, error) {
	info, err := e.Info()
	return ObjectReference{info.Cluster, info.APIVersion, info.Kind, e.Namespace, e.Name, e.UID}, err
}

func (i Item[T]) reference() (ObjectReference, error) {
	info, err := constantSource(i.Source)
	if err != nil {
		return ObjectReference{}, err
	}
	found, err := referenceIn(i.Object)
	found.Cluster, found.APIVersion, found.Kind = info.Cluster, info.APIVersion, info.Kind
	return found, err
}

// referenceIn returns what the JSON of an object has.
func referenceIn(object any) (ObjectReference, error) {
	var found struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			UID       string `json:"uid"`
		} `json:"metadata"`
	}
	document, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(document, &found)
	}
	if err != nil {
		return ObjectReference{}, &HostError{CodeInvalid, fmt.Sprintf("%T is not an object: %v", object, err)}
	}
	meta := found.Metadata
	return ObjectReference{"", found.APIVersion, found.Kind, meta.Namespace, meta.Name, meta.UID}, nil
}

// referenceTo returns the reference to an object.
func referenceTo(object any) (ObjectReference, error) {
	var found ObjectReference
	var err error
	if known, isKnown := object.(referrer); isKnown {
		found, err = known.reference()
	} else {
		found, err = referenceIn(object)
	}
	if err == nil && (found.APIVersion == "" || found.Kind == "" || found.Name == "") {
		message := "%T has no apiVersion, kind and metadata.name: pass the *informant.Event, or an ObjectReference"
		err = &HostError{CodeInvalid, fmt.Sprintf(message, object)}
	}
	return found, err
}

// reference returns the reference to an object, with its cluster.
func (r Recorder) reference(object any) (ObjectReference, error) {
	found, err := referenceTo(object)
	if err != nil {
		return found, err
	}
	if found.Cluster == "" && r.about.hasSource {
		source, err := constantSource(r.about.source)
		if err != nil {
			return found, err
		}
		found.Cluster = source.Cluster
	}
	return found, nil
}
