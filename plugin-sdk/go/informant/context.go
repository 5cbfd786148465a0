package informant

import (
	"context"
	"encoding/json"
	"fmt"

	"informant.example/plugin-sdk/go/internal/host"
)

// Context is what a handler works with. It is valid during the call.
type Context struct {
	context.Context
	// Info is constant for an instance.
	Info *Info
	// Kube calls the Kubernetes API server.
	Kube Kube
	// Store reads the cache.
	Store Store
	// KV remembers values across restarts and versions.
	KV KV
	// Metrics changes the metrics that the plugin declares.
	Metrics Metrics
	// Recorder records Kubernetes Events.
	Recorder Recorder
}

// Info describes the plugin and the Informant that runs it.
type Info struct {
	// Plugin is the plugin's name in config.toml.
	Plugin string `json:"plugin"`
	// Config is the table `config` of its section, as JSON.
	Config Object `json:"config"`
	// Informant is the version of the host, Contract that of the contract that it has.
	Informant string `json:"informant"`
	Contract  string `json:"contract"`
	// Offers are the interfaces of the contract that the host provides, Roles the roles that it calls.
	Offers []string `json:"offers"`
	Roles  []string `json:"roles"`
	Limits Limits   `json:"limits"`
	// Role is "events" or "index". It and what follows are empty in Setup while the manifest is made.
	Role string `json:"role"`
	// Instance is the number of the instance, from 0, and Instances how many there are.
	Instance  int `json:"instance"`
	Instances int `json:"instances"`
	// Because is why the instance is created: "start", "swap", "rebuild" or "resume". Treat an unknown one as "start".
	Because string `json:"because"`
	// Previous is the version whose state is restored next, or nil.
	Previous *Version `json:"previous"`
	// LogLevel is the lowest level that is logged; empty if no level is.
	LogLevel string `json:"logLevel"`
}

// Limits are the limits of an instance.
type Limits struct {
	MemoryBytes int64 `json:"memoryBytes"`
	CallMS      int64 `json:"callMs"`
}

// Version is a version of the plugin.
type Version struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

func parseInfo(document []byte) (*Info, error) {
	info := new(Info)
	if err := json.Unmarshal(document, info); err != nil {
		return nil, TerminalError(fmt.Errorf("the context of Informant cannot be read: %w", err))
	}
	return info, nil
}

// about is the source that the present call is about.
type about struct {
	source    uint32
	hasSource bool
}

func (p *plugin) context(of about) *Context {
	return &Context{
		Context:  context.Background(),
		Info:     p.info,
		Kube:     Kube{p.info.Plugin},
		Store:    Store{of},
		Recorder: Recorder{about: of},
	}
}

// hosted returns the host.
func hosted() host.Host {
	if host.Current == nil {
		panic("informant: a native test called Informant without a fake: create one with informanttest.New")
	}
	return host.Current
}
