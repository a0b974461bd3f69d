// Package metrics measures a process for Prometheus, and serves its metrics and its health over HTTP on an address or
// a unix socket that a flag names.
//
//	GET /metrics   the metrics that All lists, and those of the Go runtime and the process, in Prometheus' text format
//	GET /healthz   200 while the process works, else 503 with the reason
//	GET /readyz    200 when the process can do all of its work, else 503 with a line for each part that cannot
//
// Guarantees:
//
//  1. Nothing listens unless a flag names an address.
//  2. A label has few values, which the program knows beforehand: never a server, an agent, a user or an intent. A code
//     that this program does not know counts as "other".
//  3. Reading metrics changes nothing in the process. What a reader would have to ask of the bus is bounded in time,
//     and is left out when it does not answer.
//  4. A nil Set measures nothing, and its methods may be called.
package metrics

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/garrison-fleet/garrison/pkg/version"
)

// Sample is one value of a gauge, with the values of its labels but service.
type Sample struct {
	Value  float64
	Labels []string
}

// One returns the only sample of a gauge without further labels.
func One(value float64) []Sample { return []Sample{{Value: value}} }

// Is returns 1 for true, and 0 for false.
func Is(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// By returns a sample for each value of one label.
func By[N int | uint32 | uint64](counts map[string]N) []Sample {
	var out []Sample
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Sample{float64(counts[label]), []string{label}})
	}
	return out
}

// Check returns why a part of the process cannot do its work, or nil.
type Check func(ctx context.Context) error

// Set is the metrics and checks of a process. It is safe for concurrent use. A nil Set measures nothing.
type Set struct {
	*state
	service []string // the first label of what it measures; nil for none
}

type state struct {
	registry   *prometheus.Registry
	descs      map[string]*prometheus.Desc
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec

	mu     sync.Mutex
	gauges map[gauge]func(context.Context) []Sample
	ready  map[string]Check
	works  map[string]Check
}

type gauge struct{ name, service string }

// buckets are those of times: a decision takes milliseconds, a step of a task up to minutes.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900}

// New returns the Set of a process, with the metrics of the Go runtime and of the process.
func New() *Set {
	s := &state{
		registry: prometheus.NewRegistry(), descs: map[string]*prometheus.Desc{},
		counters: map[string]*prometheus.CounterVec{}, histograms: map[string]*prometheus.HistogramVec{},
		gauges: map[gauge]func(context.Context) []Sample{}, ready: map[string]Check{}, works: map[string]Check{},
	}
	for _, m := range All {
		switch m.Kind {
		case Counter:
			s.counters[m.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
			s.registry.MustRegister(s.counters[m.Name])
		case Histogram:
			o := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}
			s.histograms[m.Name] = prometheus.NewHistogramVec(o, m.Labels)
			s.registry.MustRegister(s.histograms[m.Name])
		case Gauge:
			s.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		}
	}
	s.registry.MustRegister(s, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	set := &Set{state: s}
	set.Gauge(BuildInfo, func(context.Context) []Sample { return []Sample{{1, []string{version.Version}}} })
	return set
}

// Under returns a Set whose metrics have a service as their first label, and whose checks carry its name.
func (s *Set) Under(service string) *Set {
	if s == nil {
		return nil
	}
	return &Set{state: s.state, service: []string{service}}
}

// Gauge sets the function that reads a gauge. A nil function removes it.
func (s *Set) Gauge(name string, read func(context.Context) []Sample) {
	if s == nil {
		return
	}
	if s.descs[name] == nil {
		panic("metrics: no gauge " + name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := gauge{name, s.label()}
	if s.gauges[key] = read; read == nil {
		delete(s.gauges, key)
	}
}

// Add adds to a counter.
func (s *Set) Add(name string, n float64, labels ...string) {
	if s != nil {
		s.counters[name].WithLabelValues(slices.Concat(s.service, labels)...).Add(n)
	}
}

// Time adds a time to a histogram, in seconds.
func (s *Set) Time(name string, seconds float64, labels ...string) {
	if s != nil {
		s.histograms[name].WithLabelValues(slices.Concat(s.service, labels)...).Observe(seconds)
	}
}

// Ready adds a check of /readyz.
func (s *Set) Ready(part string, check Check) {
	if s != nil {
		s.add(s.ready, part, check)
	}
}

// Works adds a check of /healthz: without it, a restart of the process is the cure.
func (s *Set) Works(part string, check Check) {
	if s != nil {
		s.add(s.works, part, check)
	}
}

func (s *Set) add(to map[string]Check, part string, check Check) {
	if len(s.service) > 0 {
		part = s.service[0] + " " + part
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to[part] = check; check == nil {
		delete(to, part)
	}
}

func (s *Set) label() string {
	if len(s.service) == 0 {
		return ""
	}
	return s.service[0]
}

// Describe implements prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector. It reads the gauges side by side, as some have to ask the bus.
func (s *state) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	s.mu.Lock()
	gauges := maps.Clone(s.gauges)
	s.mu.Unlock()
	var all sync.WaitGroup
	for key, read := range gauges {
		all.Go(func() {
			for _, v := range read(ctx) {
				labels := v.Labels
				if key.service != "" {
					labels = slices.Concat([]string{key.service}, labels)
				}
				to <- prometheus.MustNewConstMetric(s.descs[key.name], prometheus.GaugeValue, v.Value, labels...)
			}
		})
	}
	all.Wait()
}
