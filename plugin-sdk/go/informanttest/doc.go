// Package informanttest replaces Informant in tests of a plugin, with plain go test.
//
// [New] starts the plugin that the package under test registers, and calls it as Informant does. The test puts and
// deletes objects, and the plugin receives the fields that its types have. The cache has the objects that were put,
// and an informer for each kind that the plugin registers; [Plugin.Informer] adds others.
//
//	func TestGreetsPods(t *testing.T) {
//		p := informanttest.New(t, nil)
//		p.Put(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "web", "name": "a"}}`)
//		if logs := p.Logs(); !slices.Equal(logs, []string{"info: hello pod=web/a"}) {
//			t.Error(logs)
//		}
//	}
//
// Kube reads and changes the same objects. Deferred writes are made when the handler has succeeded, and dropped if it
// failed; so are changes of KV and Metrics, and the Events of Recorder. [Plugin.Settle] delivers the events of the
// plugin's own writes. [Plugin.Tick] runs a timer: without it, none runs.
//
// The variables that the plugin registers by informant.Config and informant.State have their first values again in each
// New. Other variables keep theirs. Only one plugin runs at a time, so such tests cannot be parallel.
//
// The test fails if a handler leaves goroutines behind that run for 100 ms and more after it has returned: in a
// component they do not run between calls.
//
// [Plugin.Reconcile] calls a reconciler. Children are written, refused and pruned as in Informant; with
// [Plugin.ReconcileBehind], none is pruned. A whole child is compared with the cache as it is, without the defaults of
// the API server.
//
// [Scenario] runs a scenario file, with retries and time.
//
// Limits of time and memory are not simulated, and a strategic patch or an apply works like a merge patch: test those
// with the component in Informant.
package informanttest
