package informant

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// manifest is the document that describe returns. No member is written at its default, so that a plugin works with
// every Informant that knows what it uses.
type manifest struct {
	Name       string               `json:"name"`
	Version    string               `json:"version"`
	Roles      []string             `json:"roles,omitempty"`
	Events     []eventRule          `json:"events,omitempty"`
	Reconciler *reconcilerDocument  `json:"reconciler,omitempty"`
	Timers     []timerDocument      `json:"timers,omitempty"`
	Indexes    *indexes             `json:"indexes,omitempty"`
	Needs      []manifestNeed       `json:"needs,omitempty"`
	Metrics    []*MetricDeclaration `json:"metrics,omitempty"`
	Parallel   bool                 `json:"parallel,omitempty"`
	Writes     string               `json:"writes,omitempty"`
}

type eventRule struct {
	APIVersion    string   `json:"apiVersion"`
	Kind          string   `json:"kind"`
	Payload       any      `json:"payload,omitempty"`
	Old           bool     `json:"old,omitempty"`
	ChangedOnly   bool     `json:"changedOnly,omitempty"`
	Namespaces    []string `json:"namespaces,omitempty"`
	LabelSelector string   `json:"labelSelector,omitempty"`
}

type indexes struct {
	Names   []string    `json:"names"`
	Objects []indexRule `json:"objects"`
}

type indexRule struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Payload    any    `json:"payload,omitempty"`
}

type fields struct {
	Fields []string `json:"fields"`
}

type manifestNeed struct {
	Kube   *needDocument `json:"kube,omitempty"`
	Events *struct{}     `json:"events,omitempty"`
}

// The roles that every component of this SDK exports, and of which no plugin plays all.
const (
	eventRole      = "event-handler"
	reconcilerRole = "reconciler"
	timerRole      = "timer-handler"
	syncRole       = "sync-handler"
	indexRole      = "index-funcs"
	stateRole      = "state"
)

// manifest returns what the plugin has registered as a document.
func (r *registry) manifest() ([]byte, error) {
	roles := r.roles()
	if len(roles) == 0 {
		message := "the plugin registers nothing: call informant.For and set its handlers in init, or call informant.Timer"
		return nil, errors.New(message)
	}
	handled, indexed := r.handled(), r.indexed()
	if err := check(handled, indexed); err != nil {
		return nil, err
	}
	if err := r.checkReconciler(); err != nil {
		return nil, err
	}
	if err := r.checkTimers(); err != nil {
		return nil, err
	}
	m := manifest{Name: r.name, Version: r.version, Roles: roles, Metrics: r.metrics, Parallel: r.parallel}
	m.Reconciler = r.reconciled().reconcilerDocument()
	if m.Name == "" {
		m.Name = defaultName()
	}
	if m.Version == "" {
		m.Version = "0"
	}
	for _, r := range handled {
		m.Events = append(m.Events, eventRule{
			r.apiVersion, r.kind, r.payload.document(), r.old, r.changedOnly, r.namespaces, r.selector,
		})
	}
	if len(m.Events) == 1 && isDefault(m.Events[0]) {
		m.Events = nil
	}
	for _, t := range r.timers {
		m.Timers = append(m.Timers, t.document())
	}
	if len(indexed) > 0 {
		m.Indexes = &indexes{Names: r.indexNames()}
	}
	for _, r := range indexed {
		m.Indexes.Objects = append(m.Indexes.Objects, indexRule{r.apiVersion, r.kind, r.payload.document()})
	}
	for _, need := range r.needs {
		m.Needs = append(m.Needs, manifestNeed{Kube: &need.document})
	}
	if r.needsEvents {
		m.Needs = append(m.Needs, manifestNeed{Events: &struct{}{}})
	}
	if r.waitUntilSeen {
		m.Writes = "seen"
	}
	return json.Marshal(m)
}

// isDefault reports whether a rule asks for every object, whole.
func isDefault(rule eventRule) bool {
	return rule.APIVersion == anyName && rule.Kind == anyName && rule.Payload == nil && !rule.Old && !rule.ChangedOnly &&
		rule.Namespaces == nil && rule.LabelSelector == ""
}

func (r *registry) roles() []string {
	var roles []string
	if len(r.handled()) > 0 {
		roles = append(roles, eventRole)
	}
	if r.reconciled() != nil {
		roles = append(roles, reconcilerRole)
	}
	if len(r.timers) > 0 {
		roles = append(roles, timerRole)
	}
	if len(r.onSynced) > 0 {
		roles = append(roles, syncRole)
	}
	if len(r.indexed()) > 0 {
		roles = append(roles, indexRole)
	}
	if r.state != nil {
		roles = append(roles, stateRole)
	}
	return roles
}

func (p payload) document() any {
	switch {
	case p.kind == none:
		return "none"
	case p.kind == onlyMetadata:
		return "metadata"
	case len(p.pointers) > 0:
		return fields{p.pointers}
	default:
		return nil
	}
}

// check finds contradictions.
func check(handled, indexed []*rule) error {
	for _, rules := range [][]*rule{handled, indexed} {
		for at, r := range rules {
			isSame := func(other *rule) bool { return r.apiVersion == other.apiVersion && r.kind == other.kind }
			if slices.ContainsFunc(rules[:at], isSame) {
				return fmt.Errorf("%v is registered twice: set the handlers of one informant.For", r)
			}
		}
	}
	for _, r := range handled {
		if r.payload.kind == none && (r.changedOnly || r.old) {
			return fmt.Errorf("%v: ChangedOnly and Old compare the payload, but there is none", r)
		}
	}
	for _, r := range indexed {
		if r.payload.kind == none {
			return fmt.Errorf("%v: without a payload there is nothing to index", r)
		}
	}
	return nil
}

// The intervals of MinInterval.
const (
	shortestInterval = 10 * time.Millisecond
	longestInterval  = 24 * time.Hour
)

// checkReconciler finds contradictions between Reconcile and the handlers.
func (r *registry) checkReconciler() error {
	reconciled := slices.DeleteFunc(slices.Clone(r.rules), func(r *rule) bool { return r.reconcile == nil })
	handled := r.handled()
	switch {
	case len(reconciled) > 1:
		return fmt.Errorf("%v and %v have Reconcile: a plugin reconciles one kind", reconciled[0], reconciled[1])
	case len(reconciled) == 1 && len(handled) > 0:
		return fmt.Errorf("%v has Reconcile and %v handles events: a plugin does one of both", reconciled[0], handled[0])
	}
	for _, rule := range r.rules {
		of := rule.owns != nil || rule.watches != nil || rule.when != nil || rule.minInterval != nil
		if rule.reconcile == nil && of {
			return fmt.Errorf("%v: Owns, Watches, When and MinInterval belong to Reconcile, which it lacks", rule)
		}
		if i := rule.minInterval; i != nil && (*i < shortestInterval || *i > longestInterval) {
			return fmt.Errorf("%v has the MinInterval %v: pass 10 ms to 24 h", rule, *i)
		}
	}
	return nil
}

// defaultName is the last part of the main package's import path.
func defaultName() string {
	info, isThere := debug.ReadBuildInfo()
	if !isThere || info.Path == "" || info.Path == "command-line-arguments" {
		return "plugin"
	}
	return strings.TrimSuffix(path.Base(info.Path), ".test")
}
