package informanttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/internal/host"
)

// Contract is the version of the contract that the plugin finds in its context.
const Contract = "0.3.0"

// Plugin is a running plugin, with the cache that it reads.
type Plugin struct {
	t        testing.TB
	fake     *fake
	plugin   host.Plugin
	context  object
	manifest manifest
	document []byte
	reason   informant.Reason
	requeues map[key]requeue
	failed   map[key]func() error
	calls    []madeCall
}

// madeCall is a call of the plugin, for scenarios.
type madeCall struct {
	call, object, reason string
	timer                string
	missed, attempt      uint32
	err                  error
	requeue              *time.Duration
}

type requeue struct {
	after time.Duration
	// For an object that is gone: its last state.
	last    object
	unknown bool
}

// Requeue is a call that the plugin has asked for.
type Requeue struct {
	// Object is namespace/name, or the name.
	Object string
	After  time.Duration
}

// New starts the plugin with this configuration: a value that is written as JSON, or nil. It fails the test if the
// plugin does not start.
func New(t testing.TB, config any) *Plugin {
	t.Helper()
	p, err := Start(t, config)
	if err != nil {
		t.Fatalf("the plugin does not start: %v", err)
	}
	return p
}

// Start is New, but returns why the plugin does not start.
func Start(t testing.TB, config any) (*Plugin, error) {
	t.Helper()
	return StartWith(t, map[string]any{"config": config})
}

// StartWith is Start, with these members of the context of init: "because", "instance" and so on. The others are those
// of a first start.
func StartWith(t testing.TB, context map[string]any) (*Plugin, error) {
	t.Helper()
	p, err := start(t, context)
	if err == nil {
		p.addInformers()
	}
	return p, err
}

// start is StartWith, without informers.
func start(t testing.TB, context map[string]any) (*Plugin, error) {
	t.Helper()
	if host.Current != nil {
		t.Fatal("informanttest: another plugin is running; such tests cannot be parallel")
	}
	p := &Plugin{
		t:    t,
		fake: newFake(),
		context: object{
			"plugin": "test", "informant": "0.1.0", "contract": Contract,
			"offers":   []string{"store", "kube", "kv", "metrics", "recorder", "log"},
			"roles":    []string{"event-handler", "reconciler", "timer-handler", "sync-handler", "index-funcs", "state"},
			"role":     "events",
			"instance": 0, "instances": 1, "because": "start", "logLevel": "trace",
		},
		reason:   informant.ReasonWatch,
		requeues: map[key]requeue{},
		failed:   map[key]func() error{},
	}
	maps.Copy(p.context, context)
	if p.context["config"] == nil {
		p.context["config"] = object{}
	}
	p.fake.pluginIndex = p.indexOf
	host.Current = p.fake
	transport := http.DefaultTransport
	http.DefaultTransport = refuseRequests{}
	host.ReportGoroutines = func(text string) { t.Error(text) }
	stop := func() {
		host.Current, host.ReportGoroutines = nil, nil
		http.DefaultTransport = transport
	}
	err := p.describe()
	if err == nil {
		err = p.init()
	}
	if err != nil {
		stop()
		return nil, err
	}
	t.Cleanup(stop)
	return p, nil
}

type refuseRequests struct{}

func (refuseRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	message := "%s %s: the test answers no requests; call HTTP of the informanttest.Plugin"
	return nil, fmt.Errorf(message, request.Method, request.URL)
}

// manifest is read strictly, as Informant does.
type manifest struct {
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Roles      []string      `json:"roles"`
	Events     []eventRule   `json:"events"`
	Reconciler *reconciler   `json:"reconciler"`
	Timers     []timerRule   `json:"timers"`
	Indexes    *indexes      `json:"indexes"`
	Needs      []any         `json:"needs"`
	Metrics    []declaration `json:"metrics"`
	Parallel   bool          `json:"parallel"`
	Writes     string        `json:"writes"`
}

type eventRule struct {
	objectRule
	Old           bool     `json:"old"`
	ChangedOnly   bool     `json:"changedOnly"`
	Namespaces    []string `json:"namespaces"`
	LabelSelector string   `json:"labelSelector"`

	requirements []requirement
}

type indexes struct {
	Names   []string     `json:"names"`
	Objects []objectRule `json:"objects"`
}

type objectRule struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Payload    json.RawMessage `json:"payload"`
}

func (p *Plugin) describe() error {
	context := maps.Clone(p.context)
	for _, member := range []string{"role", "instance", "instances", "because", "logLevel", "previous"} {
		delete(context, member)
	}
	p.fake.phase = nothing
	document, problem := host.NewPlugin().Describe(compact(context))
	if problem != "" {
		return errors.New(problem)
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	p.manifest, p.document = manifest{}, document
	if err := decoder.Decode(&p.manifest); err != nil {
		return fmt.Errorf("the manifest is invalid: %w: %s", err, document)
	}
	if p.plays("event-handler") && p.manifest.Events == nil {
		p.manifest.Events = []eventRule{{objectRule: objectRule{APIVersion: "*", Kind: "*"}}}
	}
	for at := range p.manifest.Events {
		rule := &p.manifest.Events[at]
		var err error
		if rule.requirements, err = parseSelector(rule.LabelSelector); err != nil {
			return err
		}
	}
	for _, metric := range p.manifest.Metrics {
		p.fake.metrics[metric.Name] = metric
	}
	p.fake.plugin, _ = p.context["plugin"].(string)
	p.fake.reconciler = p.manifest.Reconciler
	return nil
}

// addInformers adds an informer for each kind that the plugin registers.
func (p *Plugin) addInformers() {
	var rules []objectRule
	for _, rule := range p.manifest.Events {
		rules = append(rules, rule.objectRule)
	}
	if p.manifest.Indexes != nil {
		rules = append(rules, p.manifest.Indexes.Objects...)
	}
	rules = append(rules, p.manifest.Reconciler.kinds()...)
	for _, rule := range rules {
		if rule.APIVersion != "*" && rule.Kind != "*" {
			p.fake.register(rule.APIVersion, rule.Kind)
		}
	}
}

func (p *Plugin) plays(role string) bool {
	return p.manifest.Roles == nil || slices.Contains(p.manifest.Roles, role)
}

func (p *Plugin) init() error {
	p.plugin = host.NewPlugin()
	return p.call(starting, 0, func() *host.Failure { return p.plugin.Init(compact(p.context)) })
}

// call makes a call to the plugin. What it has changed takes effect if it succeeds.
func (p *Plugin) call(phase phase, about uint32, call func() *host.Failure) error {
	p.fake.phase, p.fake.about = phase, about
	defer func() { p.fake.phase, p.fake.about = nothing, 0 }()
	failure := call()
	if refused := p.fake.end(failure == nil); refused != nil {
		code := informant.APICode(host.Name(host.APIErrorCodes, refused.Code))
		return &informant.APIError{Code: code, Message: refused.Message}
	}
	if failure == nil {
		return nil
	}
	err := errors.New(failure.Message)
	switch failure.Kind {
	case host.Permanent:
		return informant.TerminalError(err)
	case host.RetryAfter:
		return informant.RetryAfter(time.Duration(failure.AfterMS)*time.Millisecond, err)
	}
	return err
}

// Manifest returns the plugin's manifest, as it sends it to Informant.
func (p *Plugin) Manifest() string {
	return string(p.document)
}

// Reason sets the reason of the following events. The first one is informant.ReasonWatch.
func (p *Plugin) Reason(reason informant.Reason) {
	p.reason = reason
}

// Informer adds a source to the cache: a kind in an informer of this name. Without it, the informer of a kind is its
// plural. It exists from the start if the plugin registers the kind by informant.For, and otherwise once an object was
// put. Call Informer before the first object of the kind.
func (p *Plugin) Informer(name, apiVersion, kind string) {
	p.InformerIn("", name, apiVersion, kind)
}

// InformerIn is Informer, in this cluster.
func (p *Plugin) InformerIn(cluster, name, apiVersion, kind string) {
	p.fake.addSource(cluster, name, apiVersion, kind, true)
}

// Index adds an index that another plugin, or config.toml, defines for an informer. The values are either the JSON
// pointer in [informer.NAME.index], such as "/metadata/ownerReferences/*/uid", or a function of an object: a
// func(*Pod) []string, where Pod is any type that encoding/json reads, or a func(map[string]any) []string.
func (p *Plugin) Index(informer, name string, values any) {
	p.t.Helper()
	index, err := indexFunction(values)
	if informer == "" || name == "" {
		err = errors.New("the informer and the index need names")
	}
	if err != nil {
		p.t.Fatalf("Index(%q, %q, %#v): %v", informer, name, values, err)
	}
	p.fake.testIndexes[[2]string{informer, name}] = index
}

// Deny lets calls of Kube for this resource fail with an error, as without a grant; all calls if the resource is empty.
func (p *Plugin) Deny(resource string, err informant.APIError) {
	refusal := apiError(string(err.Code), "%s", err.Message)
	refusal.Status, refusal.Reason = uint16(err.Status), err.Reason
	refusal.RetryAfterMS = uint32(err.RetryAfter / time.Millisecond)
	p.fake.refusals[resource] = refusal
}

// HTTP answers the requests that the plugin sends by http.DefaultTransport. Without it, they fail.
func (p *Plugin) HTTP(answer func(request *http.Request) (*http.Response, error)) {
	http.DefaultTransport = answers(answer)
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	// An answer of a server of the test keeps a connection open, with goroutines that are not the plugin's.
	before := runtime.NumGoroutine()
	defer func() { host.TestGoroutines.Add(int64(max(0, runtime.NumGoroutine()-before))) }()
	return a(request)
}

func (p *Plugin) mustParse(value any) object {
	p.t.Helper()
	o, err := objectOf(value)
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// Put puts an object into the cache and calls the plugin: OnAdd if the object is new, OnUpdate otherwise. An object
// with another uid is a delete and an add. The object is JSON, or a value that can be written as JSON; its uid and
// resource version are made up if it has none. Put returns the plugin's error.
func (p *Plugin) Put(object any) error {
	p.t.Helper()
	return p.PutIn("", object)
}

// PutIn is Put, in this cluster.
func (p *Plugin) PutIn(cluster string, value any) error {
	p.t.Helper()
	o := p.mustParse(value)
	at, err := p.fake.keyOf(cluster, o)
	if err != nil {
		p.t.Fatal(err)
	}
	before := p.fake.objects[at]
	uid := member(o, "metadata", "uid")
	if before != nil && uid != "" && uid != member(before, "metadata", "uid") {
		if err := p.remove(at, false); err != nil {
			return err
		}
		before = nil
	}
	return p.deliver(at, before, p.fake.put(at, o))
}

// Delete removes an object from the cache and calls OnDelete. The object is namespace/name, which only one object must
// have, or what was put. Delete returns the plugin's error.
func (p *Plugin) Delete(object any) error {
	p.t.Helper()
	return p.remove(p.find(object), false)
}

// Vanish is Delete, but no watch was open when the object was deleted.
func (p *Plugin) Vanish(object any) error {
	p.t.Helper()
	return p.remove(p.find(object), true)
}

// Object returns the present state of an object, as JSON with sorted members; empty if there is none.
func (p *Plugin) Object(object any) string {
	p.t.Helper()
	found := p.matching(object)
	if len(found) == 0 {
		return ""
	}
	return string(compact(p.fake.objects[p.find(object)]))
}

func (p *Plugin) find(value any) key {
	p.t.Helper()
	found := p.matching(value)
	if len(found) != 1 {
		p.t.Fatalf("%d objects in the cache are %v, instead of one", len(found), value)
	}
	return found[0]
}

func (p *Plugin) matching(value any) []key {
	p.t.Helper()
	if name, isText := value.(string); isText && !strings.HasPrefix(strings.TrimSpace(name), "{") {
		keys := slices.SortedFunc(maps.Keys(p.fake.objects), compareKeys)
		return slices.DeleteFunc(keys, func(at key) bool { return at.String() != name })
	}
	at, err := p.fake.keyOf("", p.mustParse(value))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.fake.objects[at] == nil {
		return nil
	}
	return []key{at}
}

func (p *Plugin) remove(at key, unknown bool) error {
	last := p.fake.objects[at]
	delete(p.fake.objects, at)
	if rule := p.ruleFor(at); rule != nil && rule.selects(at, last) {
		return p.onDelete(p.reason, at, last, unknown, 0)
	}
	return nil
}

// ruleFor returns the rule for an object, or nil.
func (p *Plugin) ruleFor(at key) *eventRule {
	if !p.plays("event-handler") || p.fake.watched != nil && !p.fake.watched[at.source] {
		return nil
	}
	source := p.fake.source(at.source)
	var best *eventRule
	for at := range p.manifest.Events {
		rule := &p.manifest.Events[at]
		if rule.matches(source) && (best == nil || rule.specificity() > best.specificity()) {
			best = rule
		}
	}
	return best
}

func (r *objectRule) matches(source host.SourceInfo) bool {
	return (r.APIVersion == "*" || r.APIVersion == source.APIVersion) && (r.Kind == "*" || r.Kind == source.Kind)
}

func (r *objectRule) specificity() int {
	score := 0
	if r.APIVersion != "*" {
		score += 2
	}
	if r.Kind != "*" {
		score++
	}
	return score
}

// shown returns the document that the plugin receives.
func (r *objectRule) shown(o object) []byte {
	var fields struct{ Fields []string }
	switch string(r.Payload) {
	case "", `"whole"`:
		return compact(o)
	case `"none"`:
		return nil
	case `"metadata"`:
		fields.Fields = []string{"/metadata"}
	default:
		if err := json.Unmarshal(r.Payload, &fields); err != nil {
			panic(err)
		}
	}
	return compact(project(o, fields.Fields))
}

func (r *eventRule) selects(at key, o object) bool {
	return (r.Namespaces == nil || slices.Contains(r.Namespaces, at.namespace)) && selects(r.requirements, o)
}

// deliver calls the plugin for a change. An object that starts to match its rule is an add, one that no longer matches
// is a delete.
func (p *Plugin) deliver(at key, before, now object) error {
	return p.deliverAs(p.reason, at, before, now, 0)
}

func (p *Plugin) deliverAs(reason informant.Reason, at key, before, now object, attempt uint32) error {
	rule := p.ruleFor(at)
	if rule == nil {
		return nil
	}
	if before != nil && !rule.selects(at, before) {
		before = nil
	}
	switch {
	case rule.selects(at, now):
		if before != nil && rule.ChangedOnly && bytes.Equal(rule.shown(before), rule.shown(now)) {
			return nil
		}
		return p.onUpsert(reason, at, before == nil, before, now, attempt)
	case before != nil:
		return p.onDelete(reason, at, before, false, attempt)
	}
	return nil
}

func (p *Plugin) onUpsert(reason informant.Reason, at key, isNew bool, before, now object, attempt uint32) error {
	again := func(attempt uint32) error { return p.onUpsert(reason, at, isNew, before, now, attempt) }
	rule, name := p.ruleFor(at), "on-update"
	if isNew {
		name = "on-add"
	}
	deliver := func(of host.ObjectRef, call host.Call) (*uint32, *host.Failure) {
		if isNew {
			return p.plugin.OnAdd(of, call, rule.shown(now))
		}
		if before == nil || !rule.Old {
			return p.plugin.OnUpdate(of, call, nil, false, rule.shown(now))
		}
		return p.plugin.OnUpdate(of, call, rule.shown(before), true, rule.shown(now))
	}
	return p.handle(name, reason, at, now, attempt, requeue{}, again, deliver)
}

func (p *Plugin) onDelete(reason informant.Reason, at key, last object, unknown bool, attempt uint32) error {
	rule := p.ruleFor(at)
	again := func(attempt uint32) error { return p.onDelete(reason, at, last, unknown, attempt) }
	gone := requeue{last: last, unknown: unknown}
	deliver := func(of host.ObjectRef, call host.Call) (*uint32, *host.Failure) {
		return p.plugin.OnDelete(of, call, rule.shown(last), true, unknown)
	}
	return p.handle("on-delete", reason, at, last, attempt, gone, again, deliver)
}

func (p *Plugin) handle(
	name string, reason informant.Reason, at key, o object, attempt uint32, asked requeue,
	again func(attempt uint32) error,
	call func(host.ObjectRef, host.Call) (*uint32, *host.Failure),
) error {
	delete(p.requeues, at)
	delete(p.failed, at)
	of := host.ObjectRef{
		Source:          at.source,
		Namespace:       at.namespace,
		Name:            at.name,
		UID:             member(o, "metadata", "uid"),
		ResourceVersion: member(o, "metadata", "resourceVersion"),
	}
	why := host.Call{Reason: host.Number(host.Reasons, string(reason)), Attempt: attempt}
	made := madeCall{
		call:    name,
		object:  p.fake.source(at.source).Resource + " " + at.String(),
		reason:  string(reason),
		attempt: attempt,
	}
	err := p.call(handling, at.source, func() *host.Failure {
		after, failure := call(of, why)
		if failure == nil && after != nil {
			asked.after = time.Duration(*after) * time.Millisecond
			p.requeues[at] = asked
			made.requeue = &asked.after
		}
		return failure
	})
	made.err = err
	p.calls = append(p.calls, made)
	if err != nil {
		delete(p.requeues, at)
	}
	if err != nil && !informant.IsTerminal(err) {
		p.failed[at] = func() error { return again(attempt + 1) }
	}
	return err
}

// Retry calls the plugin again for each object and timer whose last call failed, unless the error was an
// informant.TerminalError. It returns the errors, joined.
func (p *Plugin) Retry() error {
	var all []error
	for _, at := range slices.SortedFunc(maps.Keys(p.failed), compareKeys) {
		all = append(all, p.failed[at]())
	}
	return errors.Join(all...)
}

// Requeues returns the calls that the plugin has asked for.
func (p *Plugin) Requeues() []Requeue {
	var all []Requeue
	for _, at := range slices.SortedFunc(maps.Keys(p.requeues), compareKeys) {
		all = append(all, Requeue{at.String(), p.requeues[at].after})
	}
	return all
}

// RunRequeues makes the calls that the plugin has asked for, without waiting, each once. It returns the plugin's
// errors, joined.
func (p *Plugin) RunRequeues() error {
	due := p.requeues
	p.requeues = map[key]requeue{}
	var all []error
	for _, at := range slices.SortedFunc(maps.Keys(due), compareKeys) {
		asked, now := due[at], p.fake.objects[at]
		switch {
		case asked.last != nil:
			all = append(all, p.onDelete(informant.ReasonRequeueAfter, at, asked.last, asked.unknown, 0))
		case now != nil:
			all = append(all, p.onUpsert(informant.ReasonRequeueAfter, at, false, nil, now, 0))
		}
	}
	return errors.Join(all...)
}

// Synced calls OnSynced for each source. It returns the plugin's errors, joined.
func (p *Plugin) Synced() error {
	if !p.plays("sync-handler") {
		return nil
	}
	var all []error
	for _, source := range p.fake.sources {
		all = append(all, p.synced(source.ID, 0))
	}
	return errors.Join(all...)
}

func (p *Plugin) synced(source, attempt uint32) error {
	why := host.Call{Reason: host.Number(host.Reasons, string(informant.ReasonInitial)), Attempt: attempt}
	err := p.call(handling, source, func() *host.Failure { return p.plugin.OnSynced(source, why) })
	made := madeCall{
		call:    "on-synced",
		object:  p.fake.source(source).Resource,
		reason:  string(informant.ReasonInitial),
		attempt: attempt,
		err:     err,
	}
	p.calls = append(p.calls, made)
	return err
}

// The most calls of Settle.
const settleCallsMax = 1_000

// Settle delivers the events of the plugin's own writes, as Informant does, until it stops writing. It returns the
// number of events and the first error of the plugin, and fails the test after 1,000 events: each write causes another.
func (p *Plugin) Settle() (events int, err error) {
	p.t.Helper()
	for len(p.fake.changed) > 0 {
		changed := p.fake.changed
		p.fake.changed = nil
		for _, c := range changed {
			if events++; events > settleCallsMax {
				p.t.Fatalf("the plugin still writes after %d events: compare before you write", settleCallsMax)
			}
			now := p.fake.objects[c.at]
			switch {
			case now != nil:
				err = p.deliver(c.at, c.before, now)
			case c.before != nil:
				if rule := p.ruleFor(c.at); rule != nil && rule.selects(c.at, c.before) {
					err = p.onDelete(p.reason, c.at, c.before, false, 0)
				}
			}
			if err != nil {
				return events, err
			}
		}
	}
	return events, nil
}

// Swap replaces the plugin by a new instance, which receives the state of the old one. The cache, KV and metrics stay.
// It fails the test if the plugin refuses.
func (p *Plugin) Swap() {
	p.t.Helper()
	var state []byte
	hasState := p.plays("state")
	if hasState {
		err := p.call(swapping, 0, func() (failure *host.Failure) {
			state, failure = p.plugin.Save()
			return failure
		})
		p.calls = append(p.calls, madeCall{call: "save", err: err})
		if err != nil {
			p.t.Fatalf("the plugin does not save its state: %v", err)
		}
		p.context["previous"] = map[string]string{"version": p.manifest.Version, "digest": "sha256:0"}
	}
	p.context["because"] = "swap"
	if err := errors.Join(p.describe(), p.init()); err != nil {
		p.t.Fatalf("the new instance does not start: %v", err)
	}
	if !hasState {
		return
	}
	err := p.call(swapping, 0, func() *host.Failure { return p.plugin.Restore(state) })
	p.calls = append(p.calls, madeCall{call: "restore", err: err})
	if err != nil {
		p.t.Fatalf("the plugin does not restore its state: %v", err)
	}
}

// Writes returns the plugin's writes since the last call, without failed ones and dry runs.
func (p *Plugin) Writes() []Write {
	writes := p.fake.writes
	p.fake.writes = nil
	return writes
}

// Logs returns the lines logged since the last call, as "level: message name=value".
func (p *Plugin) Logs() []string {
	lines := p.fake.log
	p.fake.log = nil
	return lines
}

// KV returns what the plugin remembers.
func (p *Plugin) KV() map[string]string {
	values := map[string]string{}
	for name, value := range p.fake.values {
		values[name] = string(value)
	}
	return values
}

// Remember sets a key, as if the plugin had done it earlier.
func (p *Plugin) Remember(name, value string) {
	p.fake.values[name] = []byte(value)
}

// Metrics returns the series of the plugin's metrics: `seen{text="a"}`, and for a histogram `sizes_count` and
// `sizes_sum`.
func (p *Plugin) Metrics() map[string]float64 {
	return maps.Clone(p.fake.series)
}

// IndexValues returns the values of an object in an index of the plugin.
func (p *Plugin) IndexValues(index string, object any) ([]string, error) {
	p.t.Helper()
	o := p.mustParse(object)
	at, err := p.fake.keyOf("", o)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.manifest.Indexes == nil || !slices.Contains(p.manifest.Indexes.Names, index) {
		p.t.Fatalf("the plugin has no index %q", index)
	}
	return p.index(o, at, index)
}

func (p *Plugin) index(o object, at key, index string) ([]string, error) {
	source := p.fake.source(at.source)
	var best *objectRule
	for at := range p.manifest.Indexes.Objects {
		rule := &p.manifest.Indexes.Objects[at]
		if rule.matches(source) && (best == nil || rule.specificity() > best.specificity()) {
			best = rule
		}
	}
	if best == nil {
		return nil, nil
	}
	before, about := p.fake.phase, p.fake.about
	p.fake.phase = nothing
	defer func() { p.fake.phase, p.fake.about = before, about }()
	of := host.ObjectRef{Source: at.source, Namespace: at.namespace, Name: at.name}
	values, problem := p.plugin.Index(of, best.shown(o))
	if problem != "" {
		return nil, errors.New(problem)
	}
	return values[slices.Index(p.manifest.Indexes.Names, index)], nil
}

// indexOf is for reads of the plugin: an object whose values cannot be computed has none.
func (p *Plugin) indexOf(o object, at key, index string) ([]string, bool) {
	if p.manifest.Indexes == nil || !slices.Contains(p.manifest.Indexes.Names, index) {
		return nil, false
	}
	values, _ := p.index(o, at, index)
	return values, true
}
