package informanttest

import (
	"fmt"
	"strings"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/internal/host"
)

type reconciler struct {
	For         primaryRule   `json:"for"`
	Owns        []relatedRule `json:"owns"`
	Watches     []relatedRule `json:"watches"`
	MinInterval string        `json:"minInterval"`
}

type primaryRule struct {
	eventRule
	When []string `json:"when"`
}

type relatedRule struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	When       []string `json:"when"`
	By         any      `json:"by"`
}

// kinds returns what is reconciled and what leads to it.
func (r *reconciler) kinds() []objectRule {
	if r == nil {
		return nil
	}
	kinds := []objectRule{r.For.objectRule}
	for _, related := range append(r.Owns, r.Watches...) {
		kinds = append(kinds, objectRule{APIVersion: related.APIVersion, Kind: related.Kind})
	}
	return kinds
}

// Reconcile calls the plugin for an object ("namespace/name"), as it is in the cache; as for one that is gone if it is
// not there.
func (p *Plugin) Reconcile(name string) error {
	p.t.Helper()
	return p.reconcile(name, false, 0)
}

// ReconcileBehind is Reconcile with [informant.Request.CacheIsBehind].
func (p *Plugin) ReconcileBehind(name string) error {
	p.t.Helper()
	return p.reconcile(name, true, 0)
}

func (p *Plugin) reconcile(name string, behind bool, attempt uint32) error {
	p.t.Helper()
	if p.manifest.Reconciler == nil {
		return fmt.Errorf("the plugin reconciles nothing: no kind has Reconcile")
	}
	rule := &p.manifest.Reconciler.For
	at := p.reconciled(name, rule)
	now := p.fake.objects[at]
	again := func(attempt uint32) error { return p.reconcile(name, behind, attempt) }
	deliver := func(of host.ObjectRef, call host.Call) (*uint32, *host.Failure) {
		p.fake.isBehind = behind
		if now == nil {
			return p.plugin.Reconcile(of, call, behind, nil, false)
		}
		return p.plugin.Reconcile(of, call, behind, rule.shown(now), true)
	}
	return p.handle("reconcile", informant.ReasonWatch, at, now, attempt, requeue{}, again, deliver)
}

// reconciled returns the key of an object, also of one that is not there.
func (p *Plugin) reconciled(name string, rule *primaryRule) key {
	namespace, short, isNamespaced := strings.Cut(name, "/")
	if !isNamespaced {
		namespace, short = "", name
	}
	at := key{0, namespace, short}
	for _, source := range p.fake.sources {
		if !rule.matches(source) {
			continue
		}
		at.source = source.ID
		if p.fake.objects[at] != nil {
			break
		}
	}
	return at
}
