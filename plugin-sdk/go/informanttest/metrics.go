package informanttest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// declaration is a metric in the manifest.
type declaration struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Help    string    `json:"help"`
	Labels  []string  `json:"labels"`
	Buckets []float64 `json:"buckets"`
}

// The most bytes of a label's value, as in Informant.
const labelBytesMax = 512

// seriesOf checks a change, and returns the name of its series: `seen{text="a"}`.
func (f *fake) seriesOf(name string, value float64, labels []host.Label, types ...string) (string, *host.Error) {
	if f.phase != handling {
		return "", notHere("metrics")
	}
	declared, isThere := f.metrics[name]
	if !isThere {
		return "", hostError("invalid", "the manifest does not declare the metric %q", name)
	}
	if !slices.Contains(types, declared.Type) {
		return "", hostError("invalid", "the metric %q is a %s", name, declared.Type)
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "", hostError("invalid", "the value of %q is not a finite number", name)
	}
	values := map[string]string{}
	for _, label := range labels {
		values[label.Name] = label.Value
		if len(label.Value) > labelBytesMax {
			return "", hostError("too-large", "the label %s of %q has more than %d bytes", label.Name, name, labelBytesMax)
		}
	}
	names := slices.Sorted(maps.Keys(values))
	if declaredNames := slices.Sorted(slices.Values(declared.Labels)); !slices.Equal(names, declaredNames) {
		return "", hostError("invalid", "the metric %q has the labels %q, not %q", name, declaredNames, names)
	}
	if len(names) == 0 {
		return name, nil
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s=%q", name, values[name]))
	}
	return name + "{" + strings.Join(parts, ",") + "}", nil
}

func (f *fake) MetricAdd(name string, amount float64, labels []host.Label) *host.Error {
	series, err := f.seriesOf(name, amount, labels, "counter", "gauge")
	if err != nil {
		return err
	}
	if f.metrics[name].Type == "counter" && amount < 0 {
		return hostError("invalid", "the counter %q cannot shrink", name)
	}
	f.pendingMetrics = append(f.pendingMetrics, func() { f.series[series] += amount })
	return nil
}

func (f *fake) MetricSet(name string, value float64, labels []host.Label) *host.Error {
	series, err := f.seriesOf(name, value, labels, "gauge")
	if err != nil {
		return err
	}
	f.pendingMetrics = append(f.pendingMetrics, func() { f.series[series] = value })
	return nil
}

func (f *fake) MetricObserve(name string, value float64, labels []host.Label) *host.Error {
	series, err := f.seriesOf(name, value, labels, "histogram")
	if err != nil {
		return err
	}
	of := strings.TrimPrefix(series, name)
	f.pendingMetrics = append(f.pendingMetrics, func() {
		f.series[name+"_count"+of]++
		f.series[name+"_sum"+of] += value
	})
	return nil
}

func (f *fake) MetricReplace(name string, samples []host.Sample) *host.Error {
	replaced := map[string]float64{}
	for _, sample := range samples {
		series, err := f.seriesOf(name, sample.Value, sample.Labels, "gauge")
		if err != nil {
			return err
		}
		replaced[series] = sample.Value
	}
	if f.metrics[name].Type != "gauge" {
		_, err := f.seriesOf(name, 0, nil, "gauge")
		return err
	}
	f.pendingMetrics = append(f.pendingMetrics, func() {
		maps.DeleteFunc(f.series, func(series string, _ float64) bool {
			return series == name || strings.HasPrefix(series, name+"{")
		})
		maps.Copy(f.series, replaced)
	})
	return nil
}
