// The conformance kit in Go. tests/guests/README.md describes what it does.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/wasihttp"
)

// Longer texts are not logged, in bytes.
const shownMax = 1_000

// Pod is what a pod of the kit has. Each part may be left out of the payload.
type Pod struct {
	Metadata *struct {
		Annotations struct {
			Do string `json:"do"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec *struct {
		Text *string `json:"text"`
	} `json:"spec"`
}

func (p *Pod) text() string {
	if p == nil || p.Spec == nil || p.Spec.Text == nil {
		return "-"
	}
	return *p.Spec.Text
}

func (p *Pod) action() string {
	if p == nil || p.Metadata == nil {
		return ""
	}
	return p.Metadata.Annotations.Do
}

func (p *Pod) parts() string {
	switch {
	case p == nil || p.Metadata == nil && p.Spec == nil:
		return "nothing"
	case p.Spec == nil:
		return "metadata"
	case p.Metadata == nil:
		return "spec"
	}
	return "metadata+spec"
}

var config struct {
	Payload string `json:"payload"`
	Old     string `json:"old"`
}

var calls uint64

func init() {
	informant.Plugin("conformance", "1")
	informant.Config(&config)
	informant.State(&calls)
	informant.Parallel()
	informant.Counter("seen", "Seen texts", "text")
	informant.Gauge("bytes", "Bytes of the last text")
	informant.Histogram("sizes", "Bytes of texts", []float64{2, 4})
	informant.Gauge("last", "The last object", "name")
	informant.Setup(setup)
	informant.OnSynced(synced)
	informant.For[Pod]("*", "*", informant.Fields()).Index("text", texts)
}

func setup(*informant.Info) error {
	options := []informant.Option{informant.Fields()}
	switch {
	case config.Payload == "metadata":
		options = append(options, informant.MetadataOnly())
	case config.Payload == "none":
		options = append(options, informant.NoPayload())
	case strings.HasPrefix(config.Payload, "/"):
		options = append(options, informant.Fields(config.Payload))
	}
	if config.Old == "yes" {
		options = append(options, informant.Old())
	}
	pods := informant.For[Pod]("*", "*", options...)
	pods.OnAdd(handler("add")).OnUpdate(handler("update")).OnDelete(handler("delete"))
	return nil
}

func handler(name string) informant.Handler[Pod] {
	return func(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
		call := name
		if e.FinalStateUnknown {
			call = "vanish"
		}
		calls++
		slog.Info(fmt.Sprintf("%d %s %v %s %d old=%s sees=%s text=%s", calls, call, e, e.Reason, e.Attempt,
			shown(informant.OldOf[Pod](e).text()), pod.parts(), shown(pod.text())))
		action, isDeferred := strings.CutPrefix(pod.action(), "defer-")
		if isDeferred {
			defers(ctx, e)
		}
		return act(ctx, e, action, pod.text())
	}
}

func shown(text string) string {
	if len(text) > shownMax {
		return strconv.Itoa(len(text))
	}
	return text
}

func act(ctx *informant.Context, e *informant.Event, action, text string) (informant.Result, error) {
	isFirst := e.Attempt == 0
	var err error
	switch action {
	case "retryable":
		if isFirst {
			err = errors.New(text)
		}
	case "retry-after":
		if isFirst {
			err = informant.RetryAfter(50*time.Millisecond, errors.New(text))
		}
	case "permanent":
		err = informant.TerminalError(errors.New(text))
	case "trap":
		if isFirst {
			// A panic of another goroutine cannot be recovered.
			go panic("asked to trap")
			select {}
		}
	case "requeue":
		if e.Reason != informant.ReasonRequeueAfter {
			return informant.Result{RequeueAfter: 100 * time.Millisecond}, nil
		}
	case "read":
		err = read(ctx)
	case "patch":
		slog.Info(outcome(patched(ctx.Kube.Now().Patch(e, seen(e))), "patched"))
	case "call":
		request(e, text)
	case "remember":
		err = remember(ctx, e, isFirst && text == "fails")
	case "measure":
		err = measure(ctx, e, text, isFirst && text == "fails")
	case "defer":
		defers(ctx, e)
	}
	return informant.Result{}, err
}

func patched(_ informant.Object, err error) error {
	return err
}

func seen(e *informant.Event) any {
	return map[string]any{"metadata": map[string]any{"uid": e.UID, "labels": map[string]string{"seen": "yes"}}}
}

// outcome returns the code of an error, or what a success is called.
func outcome(err error, success string) string {
	var refused *informant.APIError
	switch {
	case err == nil:
		return success
	case errors.As(err, &refused):
		return string(refused.Code)
	}
	return err.Error()
}

func read(ctx *informant.Context) error {
	var peer *Pod
	found := new(Pod)
	isThere, err := ctx.Store.Find("pods", "default", "peer", found)
	if err != nil {
		return err
	}
	if isThere {
		peer = found
	}
	listed, err := list(ctx, informant.Clusters{})
	if err != nil {
		return err
	}
	everywhere, err := list(ctx, informant.Clusters{All: true})
	if err != nil {
		return err
	}
	keys, err := ctx.Store.IndexKeys("pods", "namespace", "default")
	if err != nil {
		return err
	}
	slog.Info(fmt.Sprintf("found=%s listed=%s keys=%d everywhere=%s", peer.text(), listed, len(keys), everywhere))
	return nil
}

func list(ctx *informant.Context, clusters informant.Clusters) (string, error) {
	var texts []string
	for item, err := range informant.ListAs[Pod](ctx.Store, "pods", informant.Query{Clusters: clusters}) {
		if err != nil {
			return "", err
		}
		texts = append(texts, item.Object.text())
	}
	return strings.Join(texts, ","), nil
}

func request(e *informant.Event, text string) {
	asked, err := http.NewRequest(http.MethodPost, "http://a.svc/kit", strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	asked.Header.Set("content-type", "text/plain")
	asked.Header.Set("x-id", e.Name)
	answer, err := http.DefaultClient.Do(asked)
	var refused *wasihttp.Error
	switch {
	case errors.As(err, &refused) && refused.Code == wasihttp.Denied:
		slog.Info("failed=denied")
		return
	case err != nil:
		slog.Info("failed=other")
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	slog.Info(fmt.Sprintf("answered=%d %s", answer.StatusCode, body))
}

func remember(ctx *informant.Context, e *informant.Event, fails bool) error {
	count := 0
	if _, err := ctx.KV.GetJSON("count", &count); err != nil {
		return err
	}
	count++
	if err := ctx.KV.SetJSON("count", count); err != nil {
		return err
	}
	isNew, err := ctx.KV.SetIfAbsent("seen/"+e.Name, []byte("true"))
	if err != nil {
		return err
	}
	keys, err := ctx.KV.List("seen/")
	if err != nil {
		return err
	}
	slog.Info(fmt.Sprintf("remembered=%d new=%t keys=%s", count, isNew, strings.Join(keys, ",")))
	if fails {
		return errors.New("fails")
	}
	return nil
}

func measure(ctx *informant.Context, e *informant.Event, text string, fails bool) error {
	last := []informant.Sample{{Value: 1, Labels: informant.Labels{"name": e.Name}}}
	err := errors.Join(
		ctx.Metrics.Add("seen", 1, informant.Labels{"text": text}),
		ctx.Metrics.Set("bytes", float64(len(text)), nil),
		ctx.Metrics.Observe("sizes", float64(len(text)), nil),
		ctx.Metrics.Replace("last", last),
	)
	if err != nil {
		return err
	}
	var refused *informant.HostError
	if errors.As(ctx.Metrics.Add("undeclared", 1, nil), &refused) {
		code := "other"
		if refused.Code == informant.CodeInvalid {
			code = "invalid"
		}
		slog.Info("undeclared=" + code)
	}
	if fails {
		return errors.New("fails")
	}
	return nil
}

func defers(ctx *informant.Context, e *informant.Event) {
	address, err := e.Address()
	if err != nil {
		panic(err)
	}
	maps := informant.Address{Cluster: address.Cluster, Resource: "v1/configmaps", Namespace: e.Namespace}
	named := maps
	named.Name = e.Name
	document := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": e.Name}}
	const deferred = "deferred"
	create := outcome(ctx.Kube.Create(maps, document), deferred)
	update := outcome(ctx.Kube.Update(named, document), deferred)
	patch := outcome(ctx.Kube.Patch(e, seen(e)), deferred)
	remove := outcome(ctx.Kube.Delete(e), deferred)
	slog.Info(fmt.Sprintf("create=%s update=%s patch=%s delete=%s", create, update, patch, remove))
}

func synced(_ *informant.Context, s *informant.Synced) error {
	source, err := s.Info()
	if err != nil {
		return err
	}
	slog.Info(fmt.Sprintf("synced %s %s", source.Informer, source.Cluster), "reason", s.Reason, "attempt", s.Attempt)
	return nil
}

func texts(pod *Pod) ([]string, error) {
	if pod.action() == "no-index" {
		return nil, errors.New(pod.text())
	}
	return []string{pod.text()}, nil
}

func main() {}
