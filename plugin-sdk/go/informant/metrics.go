package informant

import (
	"maps"
	"slices"

	"informant.example/plugin-sdk/go/internal/host"
)

// MetricDeclaration is a metric that the plugin declares in its manifest. Informant exports it as
// informant_plugin_custom_NAME, with the label plugin.
type MetricDeclaration struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Help    string    `json:"help"`
	Labels  []string  `json:"labels,omitempty"`
	Buckets []float64 `json:"buckets,omitempty"`
}

// Counter declares a number that only grows: Metrics.Add.
func Counter(name, help string, labels ...string) {
	declare("counter", name, help, labels, nil)
}

// Gauge declares a number that is set: Metrics.Set, Add and Replace.
func Gauge(name, help string, labels ...string) {
	declare("gauge", name, help, labels, nil)
}

// Histogram counts values by size: Metrics.Observe. Buckets are the upper bounds, ascending; without them they are for
// seconds, from 5 ms to 10 s.
func Histogram(name, help string, buckets []float64, labels ...string) {
	declare("histogram", name, help, labels, buckets)
}

func declare(kind, name, help string, labels []string, buckets []float64) {
	current.metrics = append(current.metrics, &MetricDeclaration{name, kind, help, labels, buckets})
}

// Labels are the values of a metric's labels. Each label that the metric declares needs one.
type Labels map[string]string

// Sample is one series of a gauge.
type Sample struct {
	Value  float64
	Labels Labels
}

// Metrics changes the metrics that the plugin declares. What a call changes takes effect when it has succeeded.
type Metrics struct{}

// Add adds to a counter or a gauge.
func (Metrics) Add(name string, amount float64, labels Labels) error {
	return hostError(hosted().MetricAdd(name, amount, labels.list()))
}

// Set sets a gauge.
func (Metrics) Set(name string, value float64, labels Labels) error {
	return hostError(hosted().MetricSet(name, value, labels.list()))
}

// Observe counts a value in a histogram.
func (Metrics) Observe(name string, value float64, labels Labels) error {
	return hostError(hosted().MetricObserve(name, value, labels.list()))
}

// Replace replaces all series of a gauge.
func (Metrics) Replace(name string, samples []Sample) error {
	all := make([]host.Sample, len(samples))
	for at, sample := range samples {
		all[at] = host.Sample{Value: sample.Value, Labels: sample.Labels.list()}
	}
	return hostError(hosted().MetricReplace(name, all))
}

func (l Labels) list() []host.Label {
	list := make([]host.Label, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		list = append(list, host.Label{Name: name, Value: l[name]})
	}
	return list
}
