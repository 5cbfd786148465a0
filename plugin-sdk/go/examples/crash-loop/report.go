package main

import "fmt"

// Reported is what was reported about a container. The zero value is nothing.
type Reported struct {
	IsLooping bool `json:"isLooping,omitempty"`
	// OOMKills is the number of OOM kills seen. A kill is missed if the container ends again before the next event.
	OOMKills int `json:"oomKills,omitempty"`
	// LoopingAt is one more than the number of restarts at the last report of a crash loop; 0 without one.
	LoopingAt int `json:"loopingAt,omitempty"`
	// OOMKilledAt is one more than the number of restarts before the run whose OOM kill was reported last; 0 without one.
	OOMKilledAt int `json:"oomKilledAt,omitempty"`
}

// update takes the current status of the container, and returns the new reports. A crash loop is reported once for each
// restart, an OOM kill once for each run.
func (r *Reported) update(container Container, minRestarts int) (reports []string) {
	restarts := container.RestartCount
	// After a restart of the kubelet, the count of a container may start again from a lower number.
	if restarts+1 < max(r.LoopingAt, r.OOMKilledAt) {
		*r = Reported{}
	}
	runs := container.endedRuns()
	for _, run := range runs {
		if run.ended.Reason != "OOMKilled" || run.restarts+1 <= r.OOMKilledAt {
			continue
		}
		r.OOMKilledAt = run.restarts + 1
		r.OOMKills++
		seen := "once"
		if r.OOMKills > 1 {
			seen = fmt.Sprintf("%d times", r.OOMKills)
		}
		line := fmt.Sprintf("was OOM-killed: exit code %d, seen %s, %s", run.ended.ExitCode, seen, count(restarts))
		reports = append(reports, line)
	}
	r.IsLooping = container.isBackingOff() && restarts >= minRestarts
	if r.IsLooping && restarts+1 > r.LoopingAt {
		r.LoopingAt = restarts + 1
		line := "is crash-looping: " + count(restarts)
		if len(runs) > 0 {
			last := runs[len(runs)-1].ended
			line += fmt.Sprintf(", last exit code %d (%s)", last.ExitCode, last.Reason)
		}
		reports = append(reports, line)
	}
	return reports
}

func count(restarts int) string {
	if restarts == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", restarts)
}
