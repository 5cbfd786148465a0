//go:build !wasip1

package informant

import (
	"runtime"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

func init() {
	host.NewPlugin = func() host.Plugin {
		base.config.reset()
		base.state.reset()
		sources = map[uint32]SourceInfo{}
		return new(plugin)
	}
	host.FailureOf = failureOf
}

// limitMemory is for components.
func limitMemory(int64) {}

// goroutines counts those of the plugin, and those that are there before a test calls it.
func goroutines() int {
	return runtime.NumGoroutine() - int(host.TestGoroutines.Load())
}

// endWait is how long a goroutine may take to end after the handler has returned. Natively, it may still be running on
// another thread, which a busy machine holds up.
const endWait = 100 * time.Millisecond

func letGoroutinesEnd(before int) {
	for waited := time.Duration(0); waited < endWait && goroutines() > before; waited += time.Millisecond {
		time.Sleep(time.Millisecond)
	}
}
