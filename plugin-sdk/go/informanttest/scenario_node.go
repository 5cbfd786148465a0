package informanttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// node is a value of a scenario file.
type node struct {
	t         testing.TB
	file      string
	unmarshal func(document []byte, value any) error
	// steps[1].expect.calls
	path  string
	value any
}

// normalized returns a value of any YAML package as one of JSON.
func normalized(value any) any {
	document, err := json.Marshal(withTextKeys(value))
	if err != nil {
		return value
	}
	parsed, err := parse(document)
	if err != nil {
		return value
	}
	return parsed
}

// withTextKeys is for packages that read mappings as map[any]any.
func withTextKeys(value any) any {
	switch v := value.(type) {
	case map[any]any:
		members := object{}
		for name, member := range v {
			members[fmt.Sprint(name)] = withTextKeys(member)
		}
		return members
	case object:
		members := object{}
		for name, member := range v {
			members[name] = withTextKeys(member)
		}
		return members
	case []any:
		elements := make([]any, len(v))
		for at, element := range v {
			elements[at] = withTextKeys(element)
		}
		return elements
	}
	return value
}

func (n node) fail(message string) {
	n.t.Helper()
	if n.path == "" {
		n.t.Fatalf("%s: %s", n.file, message)
	}
	n.t.Fatalf("%s: %s: %s", n.file, n.path, message)
}

// needsInformant refuses what the kit does not simulate.
func (n node) needsInformant() {
	n.t.Helper()
	n.fail("informanttest cannot do this: run the scenario with `informant plugin test`")
}

func (n node) has(name string) bool {
	members, _ := n.value.(object)
	_, isThere := members[name]
	return isThere
}

func (n node) at(name string) node {
	members, _ := n.value.(object)
	n.value = members[name]
	n.path = strings.TrimPrefix(n.path+"."+name, ".")
	return n
}

// names returns the members of a mapping, sorted.
func (n node) names() []string {
	n.t.Helper()
	members, isMapping := n.value.(object)
	if !isMapping {
		n.fail(fmt.Sprintf("%s is not a mapping", compact(n.value)))
	}
	return slices.Sorted(maps.Keys(members))
}

// check refuses other members than the known ones.
func (n node) check(known []string) {
	n.t.Helper()
	for _, name := range n.names() {
		if !slices.Contains(known, name) {
			n.at(name).fail("there is no such member; there are " + strings.Join(known, ", "))
		}
	}
}

func (n node) list() []node {
	n.t.Helper()
	elements, isList := n.value.([]any)
	if !isList {
		n.fail(fmt.Sprintf("%s is not a list", compact(n.value)))
	}
	nodes := make([]node, len(elements))
	for at, element := range elements {
		nodes[at] = n
		nodes[at].value, nodes[at].path = element, fmt.Sprintf("%s[%d]", n.path, at)
	}
	return nodes
}

func (n node) text() string {
	n.t.Helper()
	text, isText := n.value.(string)
	if !isText {
		n.fail(fmt.Sprintf("%s is not a text", compact(n.value)))
	}
	return text
}

func (n node) duration() time.Duration {
	n.t.Helper()
	text, _ := n.value.(string)
	passing, isDuration := parseDuration(text)
	if !isDuration {
		n.fail(fmt.Sprintf("%s is not a duration: write it as 30s or 5m", compact(n.value)))
	}
	return passing
}

var referencePattern = regexp.MustCompile(`^([^ /]+(?:/[^ /]+){1,2}) ((?:[^ /]+/)?[^ /]+)$`)

// reference returns the resource, and namespace/name or the name.
func (n node) reference() (resource, name string) {
	n.t.Helper()
	parts := referencePattern.FindStringSubmatch(n.text())
	if parts == nil {
		n.fail(fmt.Sprintf("%q is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0", n.text()))
	}
	return parts[1], parts[2]
}

var clusterScoped = []string{
	"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass", "Namespace", "Node",
	"PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass",
}

// objects returns one object, a list of objects, or those of a text with documents.
func (n node) objects() []object {
	n.t.Helper()
	values, isList := n.value.([]any)
	if text, isText := n.value.(string); isText {
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			var value any
			if err := n.unmarshal([]byte(document), &value); err != nil {
				n.fail(err.Error())
			}
			if value != nil {
				values = append(values, normalized(value))
			}
		}
	} else if !isList {
		values = []any{n.value}
	}
	all := make([]object, len(values))
	for at, value := range values {
		o, _ := copied(value).(object)
		for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
			if member(o, path...) == "" {
				n.fail("an object lacks " + strings.Join(path, "."))
			}
		}
		// The default namespace, unless the kind has none.
		if member(o, "metadata", "namespace") == "" && !slices.Contains(clusterScoped, member(o, "kind")) {
			metadata(o)["namespace"] = "default"
		}
		all[at] = o
	}
	return all
}

var (
	scenarioMembers = []string{"config", "http", "kv", "name", "objects", "path", "plugin", "steps"}
	scenarioActions = []string{"apply", "delete", "http", "patch", "requeue", "swap", "timer", "trigger", "wait"}
	answerMembers   = []string{"after", "body", "error", "headers", "method", "status", "times", "url"}
	expectMembers   = []string{
		"absent", "calls", "deadLetters", "events", "http", "indexes", "kv", "log", "metrics", "objects", "refused", "writes",
	}
	callNames  = []string{"on-add", "on-update", "on-delete", "on-timer", "on-synced", "save", "restore"}
	eventTypes = []string{"Normal", "Warning"}
)

// streams are the lists of an expect, with the members of an entry.
var streams = map[string][]string{
	"calls":       {"attempt", "call", "error", "missed", "object", "reason", "requeueAfter", "result", "timer"},
	"events":      {"action", "note", "reason", "regarding", "related", "type"},
	"log":         {"fields", "level", "message"},
	"writes":      {"document", "kind", "object", "result", "subresource", "verb"},
	"http":        {"body", "error", "headers", "method", "status", "url"},
	"deadLetters": {"error", "object"},
}

// shortStreams are those with entries that a text is short for.
var shortStreams = []string{"calls", "deadLetters", "log"}

func checkStep(step node) {
	step.t.Helper()
	if step.has("replay") {
		step.at("replay").needsInformant()
	}
	step.check(append(slices.Clone(scenarioActions), "expect"))
	actions := slices.DeleteFunc(slices.Clone(scenarioActions), func(name string) bool { return !step.has(name) })
	if len(actions) > 1 {
		message := "a step has two actions, %s and %s: make a step of its own for %s"
		step.fail(fmt.Sprintf(message, actions[0], actions[1], actions[1]))
	}
	if step.has("wait") {
		step.at("wait").duration()
	}
	if step.has("timer") {
		step.at("timer").text()
	}
	if step.has("delete") {
		step.at("delete").reference()
	}
	if step.has("http") {
		for _, answer := range step.at("http").list() {
			checkAnswer(answer)
		}
	}
	if !step.has("expect") {
		return
	}
	expect := step.at("expect")
	expect.check(expectMembers)
	for stream := range streams {
		if expect.has(stream) {
			entriesOf(expect.at(stream), stream)
		}
	}
}

func checkAnswer(answer node) {
	answer.t.Helper()
	answer.check(answerMembers)
	if answer.has("after") {
		answer.at("after").needsInformant()
	}
	if !answer.has("url") {
		answer.fail("an answer has no `url`; `*` stands for any text")
	}
	answer.at("url").text()
	if answer.has("method") {
		answer.at("method").text()
	}
	if answer.has("error") && !slices.Contains([]string{"connect", "dns", "timeout"}, answer.at("error").text()) {
		answer.at("error").fail("there is no such error; there are connect, dns, timeout")
	}
}

// entry is an expected entry of a list.
type entry struct {
	at    node
	value object
}

// entriesOf returns the expected entries, and whether others may be between them.
func entriesOf(n node, stream string) (isPart bool, entries []entry) {
	n.t.Helper()
	if _, isPart = n.value.(object); isPart {
		n.check([]string{"includes"})
		n = n.at("includes")
	}
	for _, at := range n.list() {
		if text, isText := at.value.(string); isText && slices.Contains(shortStreams, stream) {
			entries = append(entries, entry{at, short(stream, text)})
			continue
		}
		at.check(streams[stream])
		if at.has("call") && !slices.Contains(callNames, at.at("call").text()) {
			at.at("call").fail("there is no such call; there are " + strings.Join(callNames, ", "))
		}
		if at.has("type") && !slices.Contains(eventTypes, at.at("type").text()) {
			at.at("type").fail("there is no such type; there are " + strings.Join(eventTypes, ", "))
		}
		if at.has("requeueAfter") && at.at("requeueAfter").value != nil {
			at.at("requeueAfter").duration()
		}
		entries = append(entries, entry{at, at.value.(object)})
	}
	return isPart, entries
}

// short returns what a text is short for.
func short(stream, text string) object {
	switch stream {
	case "calls":
		call, about, isAbout := strings.Cut(text, " ")
		switch {
		case isAbout && call == onTimer:
			return object{"call": call, "timer": about, "result": "ok"}
		case isAbout:
			return object{"call": call, "object": about, "result": "ok"}
		}
		return object{"call": call, "result": "ok"}
	case "deadLetters":
		return object{"object": text}
	}
	return object{"message": text}
}
