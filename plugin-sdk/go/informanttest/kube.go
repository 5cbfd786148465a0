package informanttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// Write is a write of the plugin to the API server, with the arguments of its call. It formats as
// "patch v1/pods web/a {...}".
type Write struct {
	// Verb is create, update, patch or delete.
	Verb string
	// Cluster is empty if the test has a single one.
	Cluster string
	// Resource is v1/pods, or v1/pods/status for a subresource.
	Resource string
	// Object is namespace/name, or the name.
	Object string
	// Document is what was sent, as JSON with sorted members. Empty for a delete.
	Document string
}

// String returns the write in one line.
func (w Write) String() string {
	line := w.Verb + " " + w.Resource + " " + w.Object
	if w.Cluster != "" {
		line = w.Cluster + ": " + line
	}
	return strings.TrimSpace(line + " " + w.Document)
}

type writeOptions struct {
	FieldManager    string   `json:"fieldManager"`
	FieldValidation string   `json:"fieldValidation"`
	Force           bool     `json:"force"`
	DryRun          []string `json:"dryRun"`
}

type deleteOptions struct {
	PropagationPolicy  string `json:"propagationPolicy"`
	GracePeriodSeconds int64  `json:"gracePeriodSeconds"`
	Preconditions      struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"preconditions"`
	DryRun []string `json:"dryRun"`
}

type listOptions struct {
	LabelSelector string `json:"labelSelector"`
	FieldSelector string `json:"fieldSelector"`
	Limit         int    `json:"limit"`
	Continue      string `json:"continue"`
}

func apiError(code, format string, arguments ...any) *host.APIError {
	return &host.APIError{Code: host.Number(host.APIErrorCodes, code), Message: fmt.Sprintf(format, arguments...)}
}

// readOptions is strict, as Informant is.
func readOptions[T any](document []byte) (T, *host.APIError) {
	var options T
	if len(document) == 0 {
		return options, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&options); err != nil {
		return options, apiError("invalid", "options: %v", err)
	}
	return options, nil
}

// permitted checks whether the call may be made, and fills in the cluster.
func (f *fake) permitted(at host.Address) (host.Address, *host.APIError) {
	if f.phase != handling {
		return at, apiError("not-here", "kube cannot be called here")
	}
	for _, resource := range []string{"", at.Resource} {
		if refusal := f.refusals[resource]; refusal != nil {
			return at, refusal
		}
	}
	if at.Cluster == "" && f.about != 0 {
		at.Cluster = f.source(f.about).Cluster
	}
	if at.Subresource != "" && at.Subresource != "status" {
		return at, apiError("unsupported", "informanttest does not support the subresource %q", at.Subresource)
	}
	return at, nil
}

// existing returns the object at an address.
func (f *fake) existing(at host.Address) (key, object, *host.APIError) {
	for found, o := range f.objects {
		source := f.source(found.source)
		if source.Cluster == at.Cluster && source.Resource == at.Resource && found.namespace == at.Namespace &&
			found.name == at.Name {
			return found, o, nil
		}
	}
	return key{}, nil, f.notFound(at)
}

// notFound returns why there is no object at an address. As in Informant, a missing namespace is not an absent object.
func (f *fake) notFound(at host.Address) *host.APIError {
	for found := range f.objects {
		if at.Namespace == "" && found.namespace != "" && f.source(found.source).Resource == at.Resource {
			return apiError("invalid", "%s is namespaced, but the address has no `namespace`", at.Resource)
		}
	}
	return apiError("not-found", "%s %q not found", at.Resource, at.Name)
}

func (f *fake) KubeGet(at host.Address) ([]byte, *host.APIError) {
	at, err := f.permitted(at)
	if err != nil {
		return nil, err
	}
	_, o, err := f.existing(at)
	return compact(o), err
}

// The most objects in a page.
const pageObjectsMax = 500

func (f *fake) KubeList(at host.Address, document []byte) ([][]byte, string, string, *host.APIError) {
	at, err := f.permitted(at)
	if err != nil {
		return nil, "", "", err
	}
	options, err := readOptions[listOptions](document)
	if err != nil {
		return nil, "", "", err
	}
	if options.FieldSelector != "" {
		return nil, "", "", apiError("unsupported", "informanttest does not support field selectors")
	}
	requirements, wrong := parseSelector(options.LabelSelector)
	if wrong != nil {
		return nil, "", "", apiError("invalid", "%v", wrong)
	}
	limit := pageObjectsMax
	if options.Limit > 0 {
		limit = min(limit, options.Limit)
	}
	var items [][]byte
	last := ""
	for _, found := range slices.SortedFunc(maps.Keys(f.objects), compareKeys) {
		source, o := f.source(found.source), f.objects[found]
		isMeant := source.Cluster == at.Cluster && source.Resource == at.Resource &&
			(at.Namespace == "" || at.Namespace == found.namespace) && found.String() > options.Continue
		if !isMeant || !selects(requirements, o) {
			continue
		}
		if len(items) == limit {
			return items, last, fmt.Sprint(f.version), nil
		}
		items = append(items, compact(o))
		last = found.String()
	}
	return items, "", fmt.Sprint(f.version), nil
}

func readDocument(document []byte) (object, *host.APIError) {
	o, err := objectOf(document)
	if err != nil {
		return nil, apiError("invalid", "%v", err)
	}
	return o, nil
}

func (f *fake) KubeCreate(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	at, err := f.permitted(at)
	if err != nil {
		return nil, err
	}
	return f.create(at, document, options)
}

// sent is a write that was sent to the API server, whatever became of it.
type sent struct {
	write Write
	// Of a patch: merge, json, strategic or apply.
	kind string
	// "ok", or the code of the error.
	result string
}

// sending keeps what becomes of a write.
func (f *fake) sending(verb, kind string, at host.Address, document []byte, send func() ([]byte, *host.APIError)) (
	[]byte, *host.APIError,
) {
	before := len(f.writes)
	answer, err := send()
	if err != nil {
		var o any
		if len(document) > 0 {
			o, _ = parse(document)
		}
		if members, isObject := o.(object); isObject && at.Name == "" {
			at.Name = member(members, "metadata", "name")
		}
		f.sent = append(f.sent, sent{writeOf(verb, at, o), kind, host.Name(host.APIErrorCodes, err.Code)})
		return answer, err
	}
	// None for a dry run.
	for _, w := range f.writes[before:] {
		f.sent = append(f.sent, sent{w, kind, "ok"})
	}
	return answer, nil
}

func (f *fake) create(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	return f.sending("create", "", at, document, func() ([]byte, *host.APIError) {
		return f.created(at, document, options)
	})
}

func (f *fake) created(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	chosen, err := readOptions[writeOptions](options)
	if err != nil {
		return nil, err
	}
	o, err := readDocument(document)
	if err != nil {
		return nil, err
	}
	if at.Namespace != "" {
		metadata(o)["namespace"] = at.Namespace
	}
	at.Namespace = member(o, "metadata", "namespace")
	if at.Name = member(o, "metadata", "name"); at.Name == "" {
		return nil, apiError("invalid", "informanttest does not generate names: set metadata.name")
	}
	if _, _, missing := f.existing(at); missing == nil {
		return nil, apiError("already-exists", "%s %q already exists", at.Resource, at.Name)
	}
	return f.write("create", at, nil, o, o, chosen)
}

func (f *fake) KubeUpdate(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	at, err := f.permitted(at)
	if err != nil {
		return nil, err
	}
	return f.update(at, document, options)
}

func (f *fake) update(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	return f.sending("update", "", at, document, func() ([]byte, *host.APIError) {
		return f.updated(at, document, options)
	})
}

func (f *fake) updated(at host.Address, document, options []byte) ([]byte, *host.APIError) {
	chosen, err := readOptions[writeOptions](options)
	if err != nil {
		return nil, err
	}
	o, err := readDocument(document)
	if err != nil {
		return nil, err
	}
	_, before, err := f.existing(at)
	if err != nil {
		return nil, err
	}
	uid, version := member(o, "metadata", "uid"), member(o, "metadata", "resourceVersion")
	if err := checkPreconditions(before, uid, version); err != nil {
		return nil, err
	}
	return f.write("update", at, before, o, afterWrite(at, before, o), chosen)
}

// afterWrite returns the object after a write of its status, or of the object itself.
func afterWrite(at host.Address, before, written object) object {
	after := copied(written).(object)
	if at.Subresource != "" {
		after = copied(before).(object)
		after["status"] = written["status"]
	}
	if after["apiVersion"] == nil {
		after["apiVersion"], after["kind"] = before["apiVersion"], before["kind"]
	}
	if at.Namespace != "" {
		metadata(after)["namespace"] = at.Namespace
	}
	metadata(after)["name"] = at.Name
	return after
}

func checkPreconditions(before object, uid, version string) *host.APIError {
	isOther := func(field, expected string) bool {
		return expected != "" && expected != member(before, "metadata", field)
	}
	if isOther("uid", uid) || isOther("resourceVersion", version) {
		message := "the object has been modified; please apply your changes to the latest version and try again"
		return apiError("conflict", "%s", message)
	}
	return nil
}

func (f *fake) KubePatch(at host.Address, kind uint8, document, options []byte) ([]byte, *host.APIError) {
	at, err := f.permitted(at)
	if err != nil {
		return nil, err
	}
	return f.patch(at, kind, document, options)
}

func (f *fake) patch(at host.Address, kind uint8, document, options []byte) ([]byte, *host.APIError) {
	name := patchKinds[kind]
	return f.sending("patch", name, at, document, func() ([]byte, *host.APIError) {
		return f.patched(at, kind, document, options)
	})
}

// By the number of the contract.
var patchKinds = map[uint8]string{
	host.MergePatch: "merge", host.JSONPatch: "json", host.StrategicPatch: "strategic", host.ApplyPatch: "apply",
}

func (f *fake) patched(at host.Address, kind uint8, document, options []byte) ([]byte, *host.APIError) {
	chosen, err := readOptions[writeOptions](options)
	if err != nil {
		return nil, err
	}
	if chosen.Force && kind != host.ApplyPatch {
		return nil, apiError("invalid", "options: `force` is for apply only")
	}
	_, before, err := f.existing(at)
	if kind == host.JSONPatch {
		if err != nil {
			return nil, err
		}
		after, wrong := applyOperations(before, document)
		if wrong != nil {
			return nil, apiError("invalid", "%v", wrong)
		}
		operations, _ := parse(document)
		return f.write("patch", at, before, operations, afterWrite(at, before, after.(object)), chosen)
	}
	patch, wrong := readDocument(document)
	if wrong != nil {
		return nil, wrong
	}
	if err != nil {
		if kind == host.ApplyPatch {
			return f.write("patch", at, nil, patch, afterWrite(at, patch, patch), chosen)
		}
		return nil, err
	}
	uid, version := member(patch, "metadata", "uid"), member(patch, "metadata", "resourceVersion")
	if err := checkPreconditions(before, uid, version); err != nil {
		return nil, err
	}
	after := merge(before, patch).(object)
	return f.write("patch", at, before, patch, afterWrite(at, before, after), chosen)
}

// write stores an object, unless nothing changes.
func (f *fake) write(verb string, at host.Address, before object, document any, after object, options writeOptions) (
	[]byte, *host.APIError,
) {
	if err := checkTexts(after); err != nil {
		return nil, err
	}
	if len(options.DryRun) > 0 {
		return compact(after), nil
	}
	f.record(verb, at, document)
	if before != nil && string(compact(before)) == string(compact(after)) {
		return compact(before), nil
	}
	stored, err := f.keyOf(at.Cluster, after)
	if err != nil {
		return nil, apiError("invalid", "%v", err)
	}
	f.changed = append(f.changed, change{stored, before})
	return compact(f.put(stored, after)), nil
}

// checkTexts refuses labels and annotations whose values are no texts, as the API server does.
func checkTexts(o object) *host.APIError {
	for _, field := range []string{"labels", "annotations"} {
		members, _ := metadata(o)[field].(object)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if _, isText := members[name].(string); !isText && members[name] != nil {
				return apiError("invalid", "metadata.%s: the value of %q must be a text, not %s: put it in quotes",
					field, name, compact(members[name]))
			}
		}
	}
	return nil
}

func (f *fake) record(verb string, at host.Address, document any) {
	f.writes = append(f.writes, writeOf(verb, at, document))
}

func writeOf(verb string, at host.Address, document any) Write {
	w := Write{Verb: verb, Cluster: at.Cluster, Resource: at.Resource, Object: key{0, at.Namespace, at.Name}.String()}
	if at.Subresource != "" {
		w.Resource += "/" + at.Subresource
	}
	if document != nil {
		w.Document = string(compact(document))
	}
	return w
}

func (f *fake) KubeDelete(at host.Address, options []byte) *host.APIError {
	at, err := f.permitted(at)
	if err != nil {
		return err
	}
	return f.delete(at, options)
}

func (f *fake) delete(at host.Address, options []byte) *host.APIError {
	_, err := f.sending("delete", "", at, nil, func() ([]byte, *host.APIError) { return nil, f.deleted(at, options) })
	return err
}

func (f *fake) deleted(at host.Address, options []byte) *host.APIError {
	chosen, err := readOptions[deleteOptions](options)
	if err != nil {
		return err
	}
	found, before, err := f.existing(at)
	if err != nil {
		return err
	}
	if err := checkPreconditions(before, chosen.Preconditions.UID, chosen.Preconditions.ResourceVersion); err != nil {
		return err
	}
	if len(chosen.DryRun) == 0 {
		f.record("delete", at, nil)
		delete(f.objects, found)
		f.changed = append(f.changed, change{found, before})
	}
	return nil
}

// The most writes that a call may defer, as in Informant.
const deferredMax = 100

func (f *fake) push(at host.Address, write func(host.Address) *host.APIError) *host.APIError {
	at, err := f.permitted(at)
	if err != nil {
		return err
	}
	if len(f.deferred)-f.childWrites == deferredMax {
		return apiError("too-large", "a call can defer at most %d writes", deferredMax)
	}
	f.deferred = append(f.deferred, func() *host.APIError { return write(at) })
	return nil
}

func (f *fake) DeferCreate(at host.Address, document, options []byte) *host.APIError {
	o, err := readDocument(document)
	if err != nil {
		return err
	}
	if at.Subresource == "" && member(o, "metadata", "name") == "" {
		message := "a deferred create needs metadata.name: with generateName, each attempt would create one more object"
		return apiError("invalid", "%s", message)
	}
	if _, err := readOptions[writeOptions](options); err != nil {
		return err
	}
	return f.push(at, func(at host.Address) *host.APIError {
		_, err := f.create(at, document, options)
		return err
	})
}

func (f *fake) DeferUpdate(at host.Address, document, options []byte) *host.APIError {
	if _, err := readDocument(document); err != nil {
		return err
	}
	if _, err := readOptions[writeOptions](options); err != nil {
		return err
	}
	return f.push(at, func(at host.Address) *host.APIError {
		_, err := f.update(at, document, options)
		return err
	})
}

func (f *fake) DeferPatch(at host.Address, kind uint8, document, options []byte) *host.APIError {
	if _, err := readOptions[writeOptions](options); err != nil {
		return err
	}
	return f.push(at, func(at host.Address) *host.APIError {
		_, err := f.patch(at, kind, document, options)
		return err
	})
}

func (f *fake) DeferDelete(at host.Address, options []byte) *host.APIError {
	chosen, err := readOptions[deleteOptions](options)
	if err != nil {
		return err
	}
	if chosen.Preconditions.UID == "" {
		message := "a deferred delete needs preconditions.uid: the name may belong to another object by then"
		return apiError("invalid", "%s", message)
	}
	return f.push(at, func(at host.Address) *host.APIError {
		err := f.delete(at, options)
		isGone := err != nil && err.Code == host.Number(host.APIErrorCodes, "not-found")
		isOther := err != nil && err.Code == host.Number(host.APIErrorCodes, "conflict") &&
			chosen.Preconditions.ResourceVersion == ""
		if isGone || isOther {
			return nil
		}
		return err
	})
}
