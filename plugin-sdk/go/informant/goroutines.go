package informant

import (
	"fmt"
	"log/slog"

	"informant.example/plugin-sdk/go/internal/host"
)

// reportGoroutines reports goroutines that a call has left behind: in a component by a warning, once for each export,
// and in a test by a failure.
func (p *plugin) reportGoroutines(what string, before int) {
	if goroutines() <= before {
		return
	}
	// One that is about to end, as after the cancel of its context, was not left behind.
	letGoroutinesEnd(before)
	left := goroutines() - before
	if left <= 0 {
		return
	}
	text := fmt.Sprintf("%s left goroutines behind (%d): they do not run between calls, and may continue in a call for "+
		"another object; finish them or wait for them before the handler returns, for example with sync.WaitGroup",
		what, left)
	if host.ReportGoroutines != nil {
		host.ReportGoroutines(text)
		return
	}
	if p.reported[what] {
		return
	}
	if p.reported == nil {
		p.reported = map[string]bool{}
	}
	p.reported[what] = true
	slog.Warn(text)
}
