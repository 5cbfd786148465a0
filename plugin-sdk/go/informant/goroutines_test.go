package informant_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
	"informant.example/plugin-sdk/go/internal/host"
)

// recorder is a test that continues after its errors.
type recorder struct {
	testing.TB
	errors []any
}

func (r *recorder) Error(arguments ...any) {
	r.errors = append(r.errors, fmt.Sprint(arguments...))
}

const leftBehind = "left goroutines behind (1): they do not run between calls, and may continue in a call for " +
	"another object; finish them or wait for them before the handler returns, for example with sync.WaitGroup"

// The goroutines of the test binary, besides that of a test.
var goroutinesAtStart = runtime.NumGoroutine()

// starting registers a handler of pods that makes this call, when the goroutines of earlier tests have ended: one that
// ended during the call would hide one that the call leaves behind.
func starting(t *testing.T, call func()) {
	t.Helper()
	for round := 0; round < 10_000_000 && runtime.NumGoroutine() > goroutinesAtStart+1; round++ {
		runtime.Gosched()
	}
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(*informant.Context, *informant.Event, *Labeled) (result, error) {
				call()
				return result{}, nil
			})
	})
}

// startingToLeave registers a handler that leaves a goroutine behind, for as long as the test runs.
func startingToLeave(t *testing.T, then func()) {
	t.Helper()
	end := make(chan struct{})
	starting(t, func() {
		go func() { <-end }()
		then()
	})
	t.Cleanup(func() { close(end) })
}

func doNothing() {}

func TestAGoroutineLeftBehindFailsTheTest(t *testing.T) {
	startingToLeave(t, doNothing)
	failing := &recorder{TB: t}
	p := informanttest.New(failing, nil)
	must(t, p.Put(labeled("a")))
	must(t, p.Put(labeled("a", "app", "x")))
	checkText(t, failing.errors, "[on-add "+leftBehind+" on-update "+leftBehind+"]")
	checkLogs(t, p)
}

func TestAGoroutineLeftBehindIsLoggedOnce(t *testing.T) {
	startingToLeave(t, doNothing)
	p := informanttest.New(t, nil)
	// As in a component.
	host.ReportGoroutines = nil
	must(t, p.Put(labeled("a")))
	must(t, p.Put(labeled("b")))
	checkLogs(t, p, "warn: on-add "+leftBehind)
}

func TestAGoroutineOfAPanickingHandlerIsReported(t *testing.T) {
	startingToLeave(t, func() { panic("no") })
	failing := &recorder{TB: t}
	if err := informanttest.New(failing, nil).Put(labeled("a")); err == nil {
		t.Error("it has not failed")
	}
	checkText(t, failing.errors, "[on-add "+leftBehind+"]")
}

func TestGoroutinesThatEndAreNotLeftBehind(t *testing.T) {
	starting(t, func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { <-ctx.Done() }()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {})
		}
		all.Wait()
	})
	must(t, informanttest.New(t, nil).Put(labeled("a")))
}

func TestConnectionsOfTheTestAreNotThePlugins(t *testing.T) {
	var server *httptest.Server
	starting(t, func() {
		response, err := http.Get(server.URL)
		must(t, err)
		_, err = io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
	})
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()
	p := informanttest.New(t, nil)
	p.HTTP(server.Client().Transport.RoundTrip)
	must(t, p.Put(labeled("a")))
}
