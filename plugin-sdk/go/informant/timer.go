package informant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// Tick is a run of a timer.
type Tick struct {
	// Name is that of the timer.
	Name string
	// Scheduled is when the run was due, in UTC.
	Scheduled time.Time
	// Missed is how many earlier runs were missed since the last one. This run stands for them.
	Missed int
	// Attempt is 0 at first, then one more for each retry.
	Attempt int
}

// TimerHandler is called for each run of a timer. Informant retries a failed run until the next one is due, unless the
// error is a [TerminalError].
type TimerHandler func(ctx *Context, t *Tick) error

// Timer calls the handler on a schedule. Runs of one timer follow each other, all in the instance with the number 0:
//
//	informant.Timer("report", informant.Cron("0 8 * * 1-5").In("Europe/Berlin"), report)
//	informant.Timer("sweep", informant.Every(10*time.Minute).AtStart(), sweep)
//
// A plugin may have timers in addition to its other handlers, or nothing else. Its section in config.toml may name
// other schedules.
func Timer(name string, schedule Schedule, handler TimerHandler) {
	current.timers = append(current.timers, &timer{name, schedule, handler})
}

// Schedule is when a timer runs: [Cron] or [Every].
type Schedule struct {
	cron, zone          string
	every, jitter       time.Duration
	skipMissed, atStart bool
}

// Cron is a schedule of five fields: minute, hour, day of the month, month, day of the week. Its time zone is UTC,
// unless [Schedule.In] names another.
func Cron(fields string) Schedule {
	return Schedule{cron: fields}
}

// Every is a schedule with a run each time this period is over: 100 ms to 366 days.
func Every(period time.Duration) Schedule {
	return Schedule{every: period}
}

// In returns the schedule in a time zone, for [Cron] only: a name of the IANA database, such as "Europe/Berlin".
func (s Schedule) In(zone string) Schedule {
	s.zone = zone
	return s
}

// SkipMissed returns the schedule without runs that could not be made when they were due, such as those while Informant
// was down. By default, one run makes up for all of them.
func (s Schedule) SkipMissed() Schedule {
	s.skipMissed = true
	return s
}

// Jitter returns the schedule with each run up to this time later than it is due, by chance.
func (s Schedule) Jitter(most time.Duration) Schedule {
	s.jitter = most
	return s
}

// AtStart returns the schedule with another run when the plugin starts.
func (s Schedule) AtStart() Schedule {
	s.atStart = true
	return s
}

// timer is what a plugin registers by [Timer].
type timer struct {
	name     string
	schedule Schedule
	handler  TimerHandler
}

// timerDocument is an element of the member timers of the manifest.
type timerDocument struct {
	Name    string `json:"name"`
	Cron    string `json:"cron,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Every   string `json:"every,omitempty"`
	Missed  string `json:"missed,omitempty"`
	Jitter  string `json:"jitter,omitempty"`
	AtStart bool   `json:"atStart,omitempty"`
}

const defaultZone = "UTC"

func (t *timer) document() timerDocument {
	s := t.schedule
	document := timerDocument{Name: t.name, Cron: s.cron, Zone: s.zone, AtStart: s.atStart}
	if s.zone == defaultZone {
		document.Zone = ""
	}
	if s.cron == "" {
		document.Every = durationText(s.every)
	}
	if s.skipMissed {
		document.Missed = "skip"
	}
	if s.jitter > 0 {
		document.Jitter = durationText(s.jitter)
	}
	return document
}

// durationText writes a duration as the manifest wants it: "1h 30m".
func durationText(d time.Duration) string {
	units := []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"},
		{time.Nanosecond, "ns"},
	}
	var parts []string
	for _, u := range units {
		if count := d / u.unit; count > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", count, u.name))
			d %= u.unit
		}
	}
	return strings.Join(parts, " ")
}

// The periods of Every.
const (
	everyMin = 100 * time.Millisecond
	everyMax = 366 * 24 * time.Hour
)

// checkTimers finds timers that contradict themselves or each other.
func (r *registry) checkTimers() error {
	for at, t := range r.timers {
		s := t.schedule
		isSame := func(other *timer) bool { return other.name == t.name }
		switch {
		case t.name == "":
			return fmt.Errorf("a timer has no name")
		case slices.ContainsFunc(r.timers[:at], isSame):
			return fmt.Errorf("the timer %q is registered twice", t.name)
		case s.cron == "" && (s.every < everyMin || s.every > everyMax):
			return fmt.Errorf("the timer %q runs every %v: pass Cron with five fields, or Every with 100 ms to 366 days",
				t.name, s.every)
		case s.cron == "" && s.zone != "":
			return fmt.Errorf("the timer %q has In, which belongs to Cron", t.name)
		case s.jitter < 0:
			return fmt.Errorf("the timer %q has a negative Jitter", t.name)
		}
	}
	return nil
}

func (p *plugin) OnTimer(tick host.Tick) *host.Failure {
	return failureOf(p.guard("on-timer", func() error {
		if p.registry == nil {
			return errNotStarted
		}
		at := slices.IndexFunc(p.registry.timers, func(t *timer) bool { return t.name == tick.Name })
		if at < 0 {
			return TerminalError(fmt.Errorf("the plugin has no timer %q", tick.Name))
		}
		scheduled, err := time.Parse(time.RFC3339, tick.Scheduled)
		if err != nil {
			return TerminalError(fmt.Errorf("the time of the run cannot be read: %w", err))
		}
		run := &Tick{tick.Name, scheduled.UTC(), int(tick.Missed), int(tick.Attempt)}
		return p.registry.timers[at].handler(p.context(about{}), run)
	}))
}
