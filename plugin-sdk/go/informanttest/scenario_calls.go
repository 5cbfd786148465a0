package informanttest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/internal/host"
)

// As in Informant, without what it adds at random.
const (
	backOffFirst = time.Second
	backOffMax   = 5 * time.Minute
	requeueMin   = 100 * time.Millisecond
)

// call is a call of the plugin.
type call struct {
	what   what
	reason informant.Reason
	known  known
	// The state before the event that the plugin knows; nil if there is none.
	before object
	// Of an object that is gone: its last state.
	last    object
	unknown bool
	// Of a timer: when the run was due, and how many it stands for.
	scheduled time.Duration
	missed    int
}

// what is what a call delivers.
type what int

const (
	// What an object is when the call is made.
	objectCall what = iota
	// The end of an object.
	deletedCall
	// The end of a list.
	syncedCall
	// A run of a timer.
	timerCall
)

// known is what the plugin knows of an object before a call.
type known int

const (
	// It has accepted the state before, or received none.
	exactly known = iota
	// As before, but a call has failed since. So it is called even if nothing that it receives has changed.
	maybe
	// Somebody asked for the call: an update without an old state.
	asked
)

// timer is a call that is due later: a retry, or one that the plugin asked for.
type timer struct {
	due     time.Duration
	call    call
	attempt uint32
	isRetry bool
	// Failures that lengthen the back-off: not the waits that the plugin asked for.
	failures uint32
}

type deadLetter struct {
	message string
	call    call
}

// event delivers what an object is now. While a retry is due, that delivers it.
func (r *run) event(at key, before object, reason informant.Reason) {
	if rule := r.plugin.ruleFor(at); rule == nil || before != nil && !rule.selects(at, before) {
		before = nil
	}
	now, retry := r.received(at), r.retry(at)
	if before == nil && now == nil || retry != nil && retry.call.what == deletedCall {
		// What follows is delivered after the end of the object before.
		return
	}
	_, isDead := r.deadLetters[at]
	due := call{reason: reason, before: before}
	switch {
	case now == nil:
		due = call{what: deletedCall, reason: reason, last: before}
	case retry != nil:
		due = retry.call
		due.reason = reason
	case isDead:
		due.known = maybe
	}
	if retry == nil {
		r.make(at, due, 0, 0)
	} else {
		retry.attempt, retry.call = 0, due
	}
}

// received returns the object of a key, if the plugin receives it.
func (r *run) received(at key) object {
	o, rule := r.plugin.fake.objects[at], r.plugin.ruleFor(at)
	if o == nil || rule == nil || !rule.selects(at, o) {
		return nil
	}
	return o
}

func (r *run) retry(at key) *timer {
	if due := r.timers[at]; due != nil && due.isRetry {
		return due
	}
	return nil
}

// ask makes a call that somebody asks for, unless a retry is due.
func (r *run) ask(at key, due call) {
	if r.retry(at) == nil {
		r.make(at, due, 0, 0)
	}
	r.settle()
}

// tick makes a run of a timer. While a retry is due, that stands for the run, too.
func (r *run) tick(name string) {
	at, due := timerKey(name), call{what: timerCall, scheduled: r.now}
	if retry := r.retry(at); retry != nil {
		due.missed = retry.call.missed + 1
		retry.attempt, retry.call = 0, due
	} else {
		r.make(at, due, 0, 0)
	}
	r.settle()
}

// settle delivers the events of the plugin's own writes.
func (r *run) settle() {
	fake := r.plugin.fake
	for events := 1; len(fake.changed) > 0; events++ {
		if events > settleCallsMax {
			r.root.fail(fmt.Sprintf("the plugin still writes after %d events: compare before writing", settleCallsMax))
		}
		next := fake.changed[0]
		fake.changed = fake.changed[1:]
		r.event(next.at, next.before, informant.ReasonWatch)
	}
}

// make makes a call, and keeps what follows from it.
func (r *run) make(at key, due call, attempt, failures uint32) {
	calls := len(r.plugin.calls)
	err := r.call(at, due, attempt)
	// An event that the plugin is not called for cancels nothing.
	if len(r.plugin.calls) == calls {
		return
	}
	delete(r.timers, at)
	if err == nil || informant.IsTerminal(err) {
		r.end(at, due, err)
		return
	}
	after := min(backOffFirst<<min(failures, 20), backOffMax)
	if failure := host.FailureOf(err); failure.Kind == host.RetryAfter {
		after = time.Duration(failure.AfterMS) * time.Millisecond
	} else {
		failures++
	}
	if due.what == objectCall && due.known == exactly {
		due.known = maybe
	}
	r.timers[at] = &timer{due: r.now + after, call: due, attempt: attempt + 1, isRetry: true, failures: failures}
}

// end keeps what follows from a call that has succeeded, or is not retried.
func (r *run) end(at key, ended call, err error) {
	delete(r.deadLetters, at)
	switch {
	case err == nil:
		r.keepRequeue(at)
	// A dead letter is about an object.
	case ended.what != syncedCall && ended.what != timerCall:
		r.deadLetters[at] = deadLetter{host.FailureOf(err).Message, ended}
	}
	// It was created again while the delete was retried.
	if ended.what == deletedCall && r.received(at) != nil {
		r.event(at, nil, informant.ReasonWatch)
	}
}

func (r *run) call(at key, due call, attempt uint32) error {
	p, now := r.plugin, r.received(at)
	switch {
	case due.what == syncedCall:
		return p.synced(at.source, attempt)
	case due.what == timerCall:
		return p.tick(informant.Tick{
			Name: at.name, Scheduled: scenarioStart.Add(due.scheduled), Missed: due.missed, Attempt: int(attempt),
		})
	case due.what == deletedCall:
		return p.onDelete(due.reason, at, due.last, due.unknown, attempt)
	case now == nil:
		return nil
	case due.known == exactly:
		return p.deliverAs(due.reason, at, due.before, now, attempt)
	default:
		return p.onUpsert(due.reason, at, due.known == maybe && due.before == nil, due.before, now, attempt)
	}
}

// keepRequeue keeps the call that the plugin has asked for.
func (r *run) keepRequeue(at key) {
	requeue, isAsked := r.plugin.requeues[at]
	if !isAsked {
		return
	}
	due := call{reason: informant.ReasonRequeueAfter, known: asked}
	if requeue.last != nil {
		due = call{what: deletedCall, reason: due.reason, last: requeue.last, unknown: requeue.unknown}
	}
	r.timers[at] = &timer{due: r.now + max(requeue.after, requeueMin), call: due}
}

func (r *run) wait(passing time.Duration) {
	end := r.now + passing
	for {
		var next key
		var first *timer
		for _, at := range slices.SortedFunc(maps.Keys(r.timers), compareKeys) {
			if due := r.timers[at]; due.due <= end && (first == nil || due.due < first.due) {
				next, first = at, due
			}
		}
		if first == nil {
			break
		}
		r.now = max(r.now, first.due)
		delete(r.timers, next)
		r.make(next, first.call, first.attempt, first.failures)
		r.settle()
	}
	r.now = end
}

func (r *run) redeliver(at key) {
	// As if for the first time.
	due := call{reason: informant.ReasonRequeue, known: maybe}
	if letter := r.deadLetters[at]; letter.call.what == deletedCall && r.received(at) == nil {
		due = letter.call
		due.reason = informant.ReasonRequeue
	}
	r.ask(at, due)
}
