package main

import "slices"

// Pod has the fields of a pod that this plugin reads. The messages of a container's state are not among them: they
// change with each back-off.
type Pod struct {
	Status struct {
		// Ephemeral containers are never restarted.
		InitContainerStatuses []Container `json:"initContainerStatuses"`
		ContainerStatuses     []Container `json:"containerStatuses"`
	} `json:"status"`
}

// Container is a ContainerStatus of core/v1.
type Container struct {
	Name         string `json:"name"`
	RestartCount int    `json:"restartCount"`
	State        State  `json:"state"`
	LastState    State  `json:"lastState"`
}

// State is a ContainerState of core/v1.
type State struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Running *struct {
		StartedAt string `json:"startedAt"`
	} `json:"running"`
	Terminated *Terminated `json:"terminated"`
}

// Terminated is a ContainerStateTerminated of core/v1.
type Terminated struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exitCode"`
}

// containers returns all containers, init containers first.
func (p *Pod) containers() []Container {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// isBackingOff reports whether the kubelet waits before it restarts the container.
func (c *Container) isBackingOff() bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
}

// run is an ended run of a container: the number of restarts before it, and how it ended.
type run struct {
	restarts int
	ended    *Terminated
}

// endedRuns returns those in the status, oldest first.
func (c *Container) endedRuns() []run {
	// A restart is counted when the container starts. Until then, the last run is the one that has just ended.
	before := c.RestartCount
	if c.State.Running != nil || c.State.Terminated != nil {
		before--
	}
	var runs []run
	if before >= 0 && c.LastState.Terminated != nil {
		runs = append(runs, run{before, c.LastState.Terminated})
	}
	if c.State.Terminated != nil {
		runs = append(runs, run{c.RestartCount, c.State.Terminated})
	}
	return runs
}
