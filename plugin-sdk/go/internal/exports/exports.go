//go:build wasip1

// Package exports passes the calls of Informant, as the generated bindings receive them, to the plugin.
package exports

import (
	"strings"

	reconciler "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_reconciler"
	timer "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_timer_handler"
	contract "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_types"
	"informant.example/plugin-sdk/go/internal/host"
	wit "informant.example/plugin-sdk/go/internal/wit/types"
)

// Plugin receives the calls.
var Plugin host.Plugin

type requeue = wit.Result[wit.Option[uint32], contract.Failure]

type done = wit.Result[wit.Unit, contract.Failure]

// Describe is lifecycle.describe.
func Describe(context []uint8) wit.Result[[]uint8, string] {
	manifest, problem := Plugin.Describe(context)
	if problem != "" {
		return wit.Err[[]uint8](problem)
	}
	return wit.Ok[[]uint8, string](manifest)
}

// Init is lifecycle.init.
func Init(context []uint8) done {
	return doneOf(Plugin.Init(context))
}

// OnAdd is event-handler.on-add.
func OnAdd(about contract.ObjectRef, call contract.Call, object []uint8) requeue {
	return requeueOf(Plugin.OnAdd(refOf(about), host.Call(call), object))
}

// OnUpdate is event-handler.on-update.
func OnUpdate(about contract.ObjectRef, call contract.Call, old wit.Option[[]uint8], object []uint8) requeue {
	before, hasOld := optional(old)
	return requeueOf(Plugin.OnUpdate(refOf(about), host.Call(call), before, hasOld, object))
}

// OnDelete is event-handler.on-delete.
func OnDelete(about contract.ObjectRef, call contract.Call, last wit.Option[[]uint8], unknown bool) requeue {
	before, hasLast := optional(last)
	return requeueOf(Plugin.OnDelete(refOf(about), host.Call(call), before, hasLast, unknown))
}

// Reconcile is reconciler.reconcile.
func Reconcile(about contract.ObjectRef, request reconciler.Request, object wit.Option[[]uint8]) requeue {
	now, isThere := optional(object)
	call := host.Call{Reason: request.Reason, Attempt: request.Attempt}
	return requeueOf(Plugin.Reconcile(refOf(about), call, request.CacheIsBehind, now, isThere))
}

// OnTimer is timer-handler.on-timer.
func OnTimer(tick timer.Tick) done {
	name, scheduled := strings.Clone(tick.Name), strings.Clone(tick.Scheduled)
	return doneOf(Plugin.OnTimer(host.Tick{Name: name, Scheduled: scheduled, Missed: tick.Missed, Attempt: tick.Attempt}))
}

// OnSynced is sync-handler.on-synced.
func OnSynced(source uint32, call contract.Call) done {
	return doneOf(Plugin.OnSynced(source, host.Call(call)))
}

// Index is index-funcs.index.
func Index(about contract.ObjectRef, object []uint8) wit.Result[[][]string, string] {
	values, problem := Plugin.Index(refOf(about), object)
	if problem != "" {
		return wit.Err[[][]string](problem)
	}
	return wit.Ok[[][]string, string](values)
}

// Save is state.save.
func Save() wit.Result[[]uint8, contract.Failure] {
	state, failure := Plugin.Save()
	if failure != nil {
		return wit.Err[[]uint8](failureOf(failure))
	}
	return wit.Ok[[]uint8, contract.Failure](state)
}

// Restore is state.restore.
func Restore(state []uint8) done {
	return doneOf(Plugin.Restore(state))
}

// refOf copies the texts. The arguments of a call share a chunk of memory, which a text that the plugin keeps would
// keep.
func refOf(about contract.ObjectRef) host.ObjectRef {
	texts := about.Namespace + about.Name + about.Uid + about.ResourceVersion
	cut := func(length int) string {
		text := texts[:length]
		texts = texts[length:]
		return text
	}
	return host.ObjectRef{
		Source:          about.Source,
		Namespace:       cut(len(about.Namespace)),
		Name:            cut(len(about.Name)),
		UID:             cut(len(about.Uid)),
		ResourceVersion: cut(len(about.ResourceVersion)),
	}
}

func optional(value wit.Option[[]uint8]) ([]byte, bool) {
	if value.IsSome() {
		return value.Some(), true
	}
	return nil, false
}

func doneOf(failure *host.Failure) done {
	if failure != nil {
		return wit.Err[wit.Unit](failureOf(failure))
	}
	return wit.Ok[wit.Unit, contract.Failure](wit.Unit{})
}

func requeueOf(after *uint32, failure *host.Failure) requeue {
	switch {
	case failure != nil:
		return wit.Err[wit.Option[uint32]](failureOf(failure))
	case after != nil:
		return wit.Ok[wit.Option[uint32], contract.Failure](wit.Some(*after))
	default:
		return wit.Ok[wit.Option[uint32], contract.Failure](wit.None[uint32]())
	}
}

func failureOf(failure *host.Failure) contract.Failure {
	switch failure.Kind {
	case host.RetryAfter:
		later := contract.RetryLater{Message: failure.Message, AfterMs: failure.AfterMS}
		return contract.MakeFailureRetryAfter(later)
	case host.Permanent:
		return contract.MakeFailurePermanent(failure.Message)
	default:
		return contract.MakeFailureRetryable(failure.Message)
	}
}
