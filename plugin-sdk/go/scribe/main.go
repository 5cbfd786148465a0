// The plugin of plugin-sdk/scenarios, whose README describes what it does.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/informant"
)

// Pod is what the handlers see.
type Pod struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (p *Pod) phase() string {
	if p == nil || p.Status.Phase == "" {
		return "-"
	}
	return p.Status.Phase
}

// Named is what a neighbor is listed with.
type Named struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// Placed is what the index sees.
type Placed struct {
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

var (
	handled int
	seen    map[string]bool
)

func init() {
	informant.Plugin("scribe", "0")
	informant.State(&handled)
	informant.Counter("handled", "Calls.", "call")
	informant.Setup(func(*informant.Info) error {
		seen = map[string]bool{}
		return nil
	})
	pods := informant.For[Pod]("v1", "Pod", informant.Old(), informant.ChangedOnly())
	pods.OnAdd(added).OnUpdate(updated).OnDelete(deleted)
	informant.For[Placed]("v1", "Pod").Index("node", func(pod *Placed) ([]string, error) {
		if pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	})
	informant.OnSynced(synced)
}

func begin(ctx *informant.Context, e *informant.Event, call, message string) error {
	handled++
	slog.Info(message, "handled", handled)
	return errors.Join(
		ctx.KV.SetJSON("last", e.String()),
		ctx.Metrics.Add("handled", 1, informant.Labels{"call": call}),
	)
}

func added(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	if err := begin(ctx, e, "add", fmt.Sprintf("add %v %s", e, pod.phase())); err != nil {
		return informant.Result{}, err
	}
	return act(ctx, e, pod)
}

func updated(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	message := fmt.Sprintf("update %v %s to %s", e, informant.OldOf[Pod](e).phase(), pod.phase())
	if err := begin(ctx, e, "update", message); err != nil {
		return informant.Result{}, err
	}
	return act(ctx, e, pod)
}

func deleted(ctx *informant.Context, e *informant.Event, last *Pod) (informant.Result, error) {
	err := begin(ctx, e, "delete", fmt.Sprintf("delete %v %s", e, last.phase()))
	switch wanted := last.Metadata.Annotations["do"]; {
	case wanted == "never-delete" && e.Reason != informant.ReasonRequeue:
		err = informant.TerminalError(errors.New("never"))
	case wanted == "fail-delete" && e.Attempt == 0:
		err = errors.New("not yet")
	}
	return informant.Result{}, err
}

func synced(ctx *informant.Context, _ *informant.Synced) error {
	pods := 0
	for _, err := range informant.ListAs[Named](ctx.Store, "pods", informant.Query{}) {
		if err != nil {
			return err
		}
		pods++
	}
	slog.Info(fmt.Sprintf("synced with %d pods", pods))
	var never bool
	if _, err := ctx.KV.GetJSON("never", &never); err != nil || !never {
		return err
	}
	return informant.TerminalError(errors.New("never"))
}

func act(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	isLabeled := pod.Metadata.Labels["seen"] == "yes"
	var err error
	switch pod.Metadata.Annotations["do"] {
	case "fail":
		if e.Attempt < 2 {
			err = errors.New("not yet")
		}
	case "later":
		if !seen[e.Name] {
			seen[e.Name] = true
			err = informant.RetryAfter(30*time.Second, errors.New("later"))
		}
	case "never":
		err = informant.TerminalError(errors.New("never"))
	case "label":
		err = label(ctx, e, isLabeled)
	case "label-fail":
		err = label(ctx, e, isLabeled)
		if err == nil && e.Attempt == 0 && !isLabeled {
			err = errors.New("not yet")
		}
	case "create":
		err = create(ctx, e)
	case "again":
		if e.Reason != informant.ReasonRequeueAfter {
			return informant.Result{RequeueAfter: time.Minute}, nil
		}
	case "post":
		err = post(e, pod)
	case "nodes":
		err = neighbors(ctx)
	}
	return informant.Result{}, err
}

func label(ctx *informant.Context, e *informant.Event, isLabeled bool) error {
	if isLabeled {
		return nil
	}
	labels := map[string]string{"seen": "yes"}
	return ctx.Kube.Patch(e, map[string]any{"metadata": map[string]any{"labels": labels}})
}

func create(ctx *informant.Context, e *informant.Event) error {
	maps := informant.Address{Resource: "v1/configmaps", Namespace: e.Namespace}
	document := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": e.Name}}
	_, err := ctx.Kube.Now().Create(maps, document)
	if informant.IsAlreadyExists(err) {
		slog.Info("exists")
		return nil
	}
	return err
}

func post(e *informant.Event, pod *Pod) error {
	body := strings.NewReader(fmt.Sprintf(`{"phase":%q}`, pod.phase()))
	answer, err := http.Post("https://example.com/"+e.Name, "application/json", body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %d", answer.StatusCode)
	}
	return nil
}

func neighbors(ctx *informant.Context) error {
	var names []string
	for pod, err := range informant.ListAs[Named](ctx.Store, "pods", informant.Query{Index: "node", Value: "n1"}) {
		if err != nil {
			return err
		}
		names = append(names, pod.Object.Metadata.Name)
	}
	slices.Sort(names)
	slog.Info("neighbors " + strings.Join(names, ","))
	return nil
}

func main() {}
