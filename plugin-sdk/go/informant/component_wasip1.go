package informant

import (
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
