// The reconciler of the conformance kit in Go. tests/guests/README.md describes what it does.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/informant"
)

// Pod is what a pod of the kit has.
type Pod struct {
	Metadata struct {
		Annotations struct {
			Do string `json:"do"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Text string `json:"text"`
	} `json:"spec"`
}

func init() {
	informant.Plugin("conformance-reconciler", "1")
	pods := informant.For[Pod]("v1", "Pod", informant.Fields()).When("/spec", "/metadata/annotations")
	pods.Reconcile(reconcile).Owns(informant.Related("v1", "ConfigMap"))
	informant.Timer("poll", informant.Every(10*time.Second), run)
	informant.Timer("fails", informant.Every(time.Hour), run)
	informant.NeedsEvents()
}

func reconcile(ctx *informant.Context, r *informant.Request, pod *Pod) (result informant.Result, err error) {
	state, behind := "gone", ""
	if pod != nil {
		state = "text=" + pod.Spec.Text
	}
	if r.CacheIsBehind {
		behind = " behind"
	}
	slog.Info(fmt.Sprintf("reconcile %v %v %d %s%s", r, r.Reason, r.Attempt, state, behind))
	if pod == nil {
		return result, nil
	}
	text, failure := pod.Spec.Text, errors.New(pod.Spec.Text)
	action, records := strings.CutPrefix(pod.Metadata.Annotations.Do, "event")
	if records {
		err = ctx.Recorder.Event(r, informant.Warning, "Seen", text)
	}
	switch action {
	case "children":
		_, err = setChildren(ctx, r, text)
	case "status":
		var done informant.Children
		if done, err = setChildren(ctx, r, text); err == nil {
			err = ctx.Kube.SetStatus(r, map[string]any{"text": text, "conditions": done.Conditions()})
		}
	case "finalize":
		var isWanted bool
		isWanted, err = ctx.Kube.Finalize(r, func() error {
			slog.Info("clean up")
			return nil
		})
		slog.Info(fmt.Sprintf("finalize=%v", isWanted))
	case "retryable", "-retryable":
		if r.Attempt == 0 {
			err = failure
		}
	case "-permanent":
		err = informant.TerminalError(failure)
	case "requeue":
		if r.Reason != informant.ReasonRequeueAfter {
			result.RequeueAfter = 100 * time.Millisecond
		}
	}
	return result, err
}

// setChildren sets the children that the text names.
func setChildren(ctx *informant.Context, r *informant.Request, text string) (informant.Children, error) {
	var children []any
	for name := range strings.SplitSeq(text, ",") {
		child := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
			"data": map[string]any{"of": text},
		}
		switch {
		case name == "":
		case strings.HasPrefix(name, "fields-"):
			children = append(children, child)
		default:
			children = append(children, informant.Whole(child))
		}
	}
	done, err := ctx.Kube.Children(r, children...)
	slog.Info(fmt.Sprintf("written=%d pruned=%d refused=%s skipped=%v", done.Written, done.Pruned,
		strings.Join(done.Refused, ","), done.PruneSkipped != ""))
	return done, err
}

func run(ctx *informant.Context, t *informant.Tick) error {
	scheduled := t.Scheduled.Format(time.RFC3339)
	slog.Info(fmt.Sprintf("timer %s %s missed=%d attempt=%d", t.Name, scheduled, t.Missed, t.Attempt))
	pod := informant.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "web", Name: "a", UID: "uid-web-a"}
	err := ctx.Recorder.Eventf(pod, informant.Normal, "Ticked", "%s has run, attempt %d", t.Name, t.Attempt)
	if err == nil && t.Name == "fails" && t.Attempt == 0 {
		err = errors.New("asked to fail")
	}
	return err
}

func main() {}
