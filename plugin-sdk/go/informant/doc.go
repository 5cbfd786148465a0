// Package informant is for writing plugins of Informant in Go.
//
// A plugin registers its handlers in init and has an empty main:
//
//	type Pod struct {
//		Status struct {
//			Phase string `json:"phase"`
//		} `json:"status"`
//	}
//
//	func init() {
//		informant.For[Pod]("v1", "Pod", informant.ChangedOnly()).OnUpsert(greet)
//	}
//
//	func greet(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
//		slog.Info("hello", "pod", e.String(), "phase", pod.Status.Phase)
//		return informant.Result{}, nil
//	}
//
//	func main() {}
//
// The plugin receives only the fields that the struct has. An error is a failure that Informant retries, unless it is a
// [TerminalError]; [RetryAfter] sets the delay. A panic is a failure, too: its stack is logged, and the plugin keeps
// its memory. log/slog and log write to Informant's log. Import package wasihttp to send requests with net/http.
//
// Each call runs to its end before the next one starts. Goroutines run only during a call, so wait for those that a
// handler starts. time.Sleep blocks the instance.
//
// [Kind.Reconcile] registers a function that brings what belongs to an object to its wanted state: [Kube.Children],
// [Kube.SetStatus] and [Kube.Finalize] are for it. [Timer] registers a handler that is called on a schedule.
// Context.Recorder records Kubernetes Events.
//
// The same code compiles natively. Package informanttest calls it in tests, without a component.
package informant
