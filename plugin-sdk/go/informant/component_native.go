//go:build !wasip1

package informant

import "informant.example/plugin-sdk/go/internal/host"

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
