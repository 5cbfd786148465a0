package informant

import (
	"runtime"
	"runtime/debug"

	"informant.example/plugin-sdk/go/internal/exports"
	_ "informant.example/plugin-sdk/go/internal/gen/contract/exports/wit_exports" // the component's exports
)

func init() {
	exports.Plugin = new(plugin)
}

// limitMemory lets the collector run before the memory limit of the instance is reached. Memory of a component never
// shrinks, so garbage is collected twice as often as natively.
func limitMemory(bytes int64) {
	if bytes > 0 {
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(bytes / 10 * 8)
	}
}

// goroutines counts those of the plugin.
func goroutines() int {
	return runtime.NumGoroutine()
}

// endRounds is how often the other goroutines run until they end or wait: one that ends may wake another.
const endRounds = 10

// letGoroutinesEnd needs no time: all goroutines run on this thread.
func letGoroutinesEnd(before int) {
	for round := 0; round < endRounds && goroutines() > before; round++ {
		runtime.Gosched()
	}
}
