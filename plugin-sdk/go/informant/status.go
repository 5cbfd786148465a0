package informant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// ConditionStatus is whether a condition is true.
type ConditionStatus string

// The values.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// Condition is an element of status.conditions. [Kube.SetStatus] adds lastTransitionTime and observedGeneration.
type Condition struct {
	// Type is in CamelCase: "Ready". An object has one condition of each type.
	Type   string          `json:"type"`
	Status ConditionStatus `json:"status"`
	// Reason is in CamelCase, and Message for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// SetStatus defers a write of the subresource status of the object that r is about, unless it is so in the cache:
//
//	ready := informant.Condition{Type: "Ready", Status: informant.ConditionTrue, Reason: "Deployed"}
//	err := ctx.Kube.SetStatus(r, map[string]any{"url": url, "conditions": append(done.Conditions(), ready)})
//
// The value is written as JSON, an object. A member that it lacks stays as it is, and null removes one. Its conditions
// are merged into those of the object: each replaces the one of its type, and the others stay. lastTransitionTime
// changes only with the status of the condition. If the object has a metadata.generation, observedGeneration is that,
// in the status and in its conditions.
//
// The write is a merge patch for the state that the call is about. If the object has changed since then, it is a
// conflict, and the plugin is called again for the new state. The informer has to keep the status of its objects. The
// grant is patch for the subresource status.
func (k Kube) SetStatus(r *Request, status any) error {
	wanted, err := statusOf(status)
	if err != nil {
		return err
	}
	var present struct {
		Metadata struct {
			Generation json.Number `json:"generation"`
		} `json:"metadata"`
		Status map[string]any `json:"status"`
	}
	if err := r.cached(&present, "/metadata/generation", "/status"); err != nil {
		return err
	}
	generation := present.Metadata.Generation
	if generation != "" {
		wanted["observedGeneration"] = generation
	}
	if wanted["conditions"] == nil {
		delete(wanted, "conditions")
	} else if err := mergeConditions(wanted, present.Status, generation); err != nil {
		return err
	}
	if !changes(present.Status, wanted) {
		return nil
	}
	address, err := r.Address()
	if err != nil {
		return err
	}
	return k.Patch(address.Sub("status"), map[string]any{"metadata": r.version(), "status": wanted})
}

// statusOf returns the members of a status.
func statusOf(status any) (members map[string]any, err error) {
	document, err := json.Marshal(status)
	if err == nil {
		err = decodeNumbers(document, &members)
	}
	if err != nil {
		return nil, &HostError{CodeInvalid, fmt.Sprintf("the status %T is not a JSON object: %v", status, err)}
	}
	if members == nil {
		members = map[string]any{}
	}
	return members, nil
}

// mergeConditions replaces the conditions of a status by all that the object has then.
func mergeConditions(wanted, present map[string]any, generation json.Number) error {
	conditions, isList := wanted["conditions"].([]any)
	if !isList {
		return &HostError{CodeInvalid, "the conditions of a status are not a list"}
	}
	before, _ := present["conditions"].([]any)
	merged := slices.Clone(before)
	for _, condition := range conditions {
		members, _ := condition.(map[string]any)
		for _, name := range []string{"type", "status", "reason"} {
			if text, _ := members[name].(string); text == "" {
				return &HostError{CodeInvalid, fmt.Sprintf("a condition of a status has no %s", name)}
			}
		}
		if members["message"] == nil {
			members["message"] = ""
		}
		members["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
		if generation != "" {
			members["observedGeneration"] = generation
		}
		at := slices.IndexFunc(merged, func(other any) bool {
			found, _ := other.(map[string]any)
			return found["type"] == members["type"]
		})
		if at < 0 {
			merged = append(merged, members)
			continue
		}
		found := merged[at].(map[string]any)
		if since := found["lastTransitionTime"]; since != nil && found["status"] == members["status"] {
			members["lastTransitionTime"] = since
		}
		merged[at] = members
	}
	wanted["conditions"] = merged
	return nil
}

// changes reports whether a merge patch changes a value. An empty object is as good as none.
func changes(value, patch any) bool {
	members, isObject := patch.(map[string]any)
	if !isObject {
		return !reflect.DeepEqual(value, patch)
	}
	before, isObject := value.(map[string]any)
	if !isObject && value != nil {
		return true
	}
	for name, member := range members {
		if changes(before[name], member) {
			return true
		}
	}
	return false
}

// decodeNumbers keeps numbers as they are written.
func decodeNumbers(document []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// cached reads fields of the object from the cache, whatever the type of its kind has.
func (r *Request) cached(into any, pointers ...string) error {
	document, isThere, refused := hosted().Get(r.Source, r.Namespace, r.Name, pointers)
	if refused != nil {
		return hostError(refused)
	}
	if !isThere {
		return &HostError{CodeNotFound, fmt.Sprintf("%v is gone", r)}
	}
	return decodeNumbers(document, into)
}

// version is the metadata of a patch for the state that the call is about.
func (r *Request) version() map[string]any {
	return map[string]any{"resourceVersion": r.ResourceVersion}
}
