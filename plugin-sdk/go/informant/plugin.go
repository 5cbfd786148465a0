package informant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// plugin is what Informant calls: the handlers of an instance.
type plugin struct {
	// nil before init.
	registry         *registry
	info             *Info
	handled, indexed []*rule
	indexNames       []string
	// The exports whose goroutines were reported.
	reported map[string]bool
}

var _ host.Plugin = (*plugin)(nil)

// guard makes a call. A panic becomes an error, and its stack is logged: the instance keeps its memory. Goroutines that
// the call leaves behind are reported.
func (p *plugin) guard(what string, call func() error) (err error) {
	before := goroutines()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v%s", cause, place())
			slog.Error(fmt.Sprintf("panic in %s: %v", what, cause), "stack", string(debug.Stack()))
		}
		p.reportGoroutines(what, before)
	}()
	return call()
}

// place returns where the present panic began: " (handler.go:33)".
func place() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for isPanic := false; ; {
		frame, hasMore := frames.Next()
		isRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if isPanic && !isRuntime {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(frame.File), frame.Line)
		}
		isPanic = isPanic || isRuntime
		if !hasMore {
			return ""
		}
	}
}

// start reads the context and registers what depends on it.
func (p *plugin) start(document []byte) error {
	info, err := parseInfo(document)
	if err != nil {
		return err
	}
	limitMemory(info.Limits.MemoryBytes)
	p.info, p.registry = info, base.copied()
	if err := p.registry.config.readConfig(info.Config); err != nil {
		return err
	}
	current = p.registry
	defer func() { current = &base }()
	for _, setup := range p.registry.setups {
		if err := setup(info); err != nil {
			return TerminalError(err)
		}
	}
	p.handled, p.indexed, p.indexNames = p.registry.handled(), p.registry.indexed(), p.registry.indexNames()
	return nil
}

func (p *plugin) Describe(context []byte) (manifest []byte, problem string) {
	err := p.guard("describe", func() (err error) {
		if err := p.start(context); err != nil {
			return err
		}
		manifest, err = p.registry.manifest()
		return err
	})
	if err != nil {
		return nil, err.Error()
	}
	return manifest, ""
}

func (p *plugin) Init(context []byte) *host.Failure {
	return failureOf(p.guard("init", func() error {
		if err := p.start(context); err != nil {
			return err
		}
		setLogLevel(p.info.LogLevel)
		if p.info.Role == "index" {
			return nil
		}
		for _, handler := range p.registry.onInit {
			if err := handler(p.context(about{})); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (p *plugin) OnAdd(of host.ObjectRef, call host.Call, object []byte) (*uint32, *host.Failure) {
	return p.handle("on-add", of, call, func(r *rule, e *Event) (anyHandler, any, error) {
		decoded, err := decodeFor(r.onAdd, r, object)
		return r.onAdd, decoded, err
	})
}

func (p *plugin) OnUpdate(of host.ObjectRef, call host.Call, old []byte, hasOld bool, object []byte) (
	*uint32, *host.Failure,
) {
	return p.handle("on-update", of, call, func(r *rule, e *Event) (anyHandler, any, error) {
		handler := r.onUpdate
		if handler == nil && (e.Reason == ReasonRequeueAfter || e.Reason == ReasonTrigger) {
			// Nothing changed, somebody asked for the call: a plugin that handles adds only does so again.
			handler = r.onAdd
		}
		decoded, err := decodeFor(handler, r, object)
		if err == nil && hasOld {
			e.old, err = decodeFor(handler, r, old)
		}
		return handler, decoded, err
	})
}

func (p *plugin) OnDelete(of host.ObjectRef, call host.Call, last []byte, hasLast, unknown bool) (
	*uint32, *host.Failure,
) {
	return p.handle("on-delete", of, call, func(r *rule, e *Event) (anyHandler, any, error) {
		e.FinalStateUnknown = unknown
		if !hasLast {
			return r.onDelete, nil, nil
		}
		decoded, err := decodeFor(r.onDelete, r, last)
		return r.onDelete, decoded, err
	})
}

// decodeFor decodes an object, unless there is no handler for it.
func decodeFor(handler anyHandler, r *rule, document []byte) (any, error) {
	if handler == nil {
		return nil, nil
	}
	return r.decode(document)
}

// handle finds the rule for an object and calls its handler.
func (p *plugin) handle(
	what string, of host.ObjectRef, call host.Call, prepare func(*rule, *Event) (anyHandler, any, error),
) (requeue *uint32, failure *host.Failure) {
	e := newEvent(of, call)
	failure = failureOf(p.guard(what, func() error {
		if p.registry == nil {
			return errNotStarted
		}
		r, err := p.ruleFor(of.Source)
		if err != nil || r == nil {
			return err
		}
		handler, object, err := prepare(r, e)
		if err != nil || handler == nil {
			return err
		}
		result, err := handler(p.context(about{of.Source, true}), e, object)
		if err == nil {
			requeue = result.milliseconds()
		}
		return err
	}))
	return requeue, failure
}

var errNotStarted = TerminalError(errors.New("the plugin was called before init"))

// ruleFor returns the rule for the objects of a source; nil without one.
func (p *plugin) ruleFor(source uint32) (*rule, error) {
	// Informant delivers only what matches, so the only rule needs no question.
	if len(p.handled) == 1 {
		return p.handled[0], nil
	}
	info, err := constantSource(source)
	if err != nil {
		return nil, err
	}
	return mostSpecific(p.handled, info.APIVersion, info.Kind), nil
}

func (p *plugin) OnSynced(source uint32, call host.Call) *host.Failure {
	return failureOf(p.guard("on-synced", func() error {
		if p.registry == nil {
			return errNotStarted
		}
		synced := &Synced{source, Reason(host.Name(host.Reasons, call.Reason)), int(call.Attempt)}
		for _, registered := range p.registry.onSynced {
			if registered.rule != nil {
				info, err := constantSource(source)
				if err != nil {
					return err
				}
				if !registered.rule.matches(info.APIVersion, info.Kind) {
					continue
				}
			}
			if err := registered.handler(p.context(about{source, true}), synced); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (p *plugin) Index(_ host.ObjectRef, object []byte) (values [][]string, problem string) {
	err := p.guard("index", func() error {
		if p.registry == nil {
			return errNotStarted
		}
		values = make([][]string, len(p.indexNames))
		r, err := p.indexRuleFor(object)
		if err != nil || r == nil {
			return err
		}
		decoded, err := r.decode(object)
		if err != nil {
			return err
		}
		for at, name := range p.indexNames {
			for _, index := range r.indexes {
				if index.name != name {
					continue
				}
				if values[at], err = index.values(decoded); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err.Error()
	}
	return values, ""
}

// indexRuleFor returns the rule for an object; nil without one. Index functions cannot ask for its source.
func (p *plugin) indexRuleFor(object []byte) (*rule, error) {
	if len(p.indexed) == 1 {
		return p.indexed[0], nil
	}
	var named struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.NewDecoder(bytes.NewReader(object)).Decode(&named); err != nil {
		return nil, err
	}
	return mostSpecific(p.indexed, named.APIVersion, named.Kind), nil
}

func (p *plugin) Save() (state []byte, failure *host.Failure) {
	failure = failureOf(p.guard("save", func() (err error) {
		if p.registry == nil {
			return errNotStarted
		}
		state, err = p.registry.state.save()
		return err
	}))
	return state, failure
}

func (p *plugin) Restore(state []byte) *host.Failure {
	return failureOf(p.guard("restore", func() error {
		if p.registry == nil {
			return errNotStarted
		}
		return p.registry.state.restore(state)
	}))
}
