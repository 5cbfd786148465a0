package informanttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/internal/host"
)

// timerRule is a timer in the manifest.
type timerRule struct {
	Name    string `json:"name"`
	Cron    string `json:"cron"`
	Zone    string `json:"zone"`
	Every   string `json:"every"`
	Missed  string `json:"missed"`
	Jitter  string `json:"jitter"`
	AtStart bool   `json:"atStart"`
}

// onTimer is the name of the call.
const onTimer = "on-timer"

// Tick runs a timer now, by its name. It returns the plugin's error.
func (p *Plugin) Tick(name string) error {
	p.t.Helper()
	return p.TickWith(informant.Tick{Name: name})
}

// TickWith is Tick, with these values: when the run was due, which is now by default, how many runs were missed, and
// the attempt.
func (p *Plugin) TickWith(tick informant.Tick) error {
	p.t.Helper()
	if err := p.checkTimer(tick.Name); err != nil {
		return err
	}
	if tick.Scheduled.IsZero() {
		tick.Scheduled = time.Now()
	}
	return p.tick(tick)
}

// checkTimer returns an error for a name that is none of a timer.
func (p *Plugin) checkTimer(name string) error {
	var known []string
	for _, rule := range p.manifest.Timers {
		known = append(known, rule.Name)
	}
	switch {
	case len(known) == 0:
		return fmt.Errorf("the plugin has no timers")
	case !slices.Contains(known, name):
		return fmt.Errorf("the plugin has no timer %q; there are %s", name, strings.Join(known, ", "))
	}
	return nil
}

// timerKey is the key of a timer among those of objects.
func timerKey(name string) key {
	return key{name: name}
}

func (p *Plugin) tick(tick informant.Tick) error {
	at := timerKey(tick.Name)
	delete(p.failed, at)
	run := host.Tick{
		Name:      tick.Name,
		Scheduled: tick.Scheduled.UTC().Format(time.RFC3339Nano),
		Missed:    uint32(tick.Missed),
		Attempt:   uint32(tick.Attempt),
	}
	err := p.call(handling, 0, func() *host.Failure { return p.plugin.OnTimer(run) })
	made := madeCall{call: onTimer, timer: run.Name, missed: run.Missed, attempt: run.Attempt, err: err}
	p.calls = append(p.calls, made)
	if err != nil && !informant.IsTerminal(err) {
		p.failed[at] = func() error {
			tick.Attempt++
			return p.tick(tick)
		}
	}
	return err
}
