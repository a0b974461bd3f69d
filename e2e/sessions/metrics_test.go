package sessions_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	dto "github.com/prometheus/client_model/go"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/metrics"
)

// asks returns what a process answers on its socket of metrics.
func (w *world) asks(process, path string) (status int, text string, err error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.MetricsSocket(process))
		},
	}}
	r, err := client.Get("http://" + process + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// scrape reads the metrics of a process as Prometheus does.
func (w *world) scrape(process string) (map[string]*dto.MetricFamily, error) {
	status, text, err := w.asks(process, "/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %s (%w)", process, status, text, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// quiet are the metrics that a fleet without trouble and without webhooks does not have.
var quiet = []string{metrics.BusAlarms, metrics.WebhookDeliveries, metrics.WebhookState, metrics.WebhookLag}

// A fleet that installs an agent has each metric that the page lists, and none names a server.
func TestGarrisondAndAnExecutorServeEachMetricAndAreReady(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Metrics: true}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	for _, process := range []string{"garrisond", "alpha"} {
		for _, path := range []string{"/healthz", "/readyz"} {
			w.Eventually(process+" answers "+path, func() error {
				if status, text, err := w.asks(process, path); status != http.StatusOK || err != nil {
					return fmt.Errorf("%d: %s (%w)", status, text, err)
				}
				return nil
			})
		}
	}
	scraped := scrape{}
	w.Eventually("each metric is served", func() error {
		served := map[string]*dto.MetricFamily{}
		for _, process := range []string{"garrisond", "alpha"} {
			families, err := w.scrape(process)
			if err != nil {
				return err
			}
			scraped[process] = families
			maps.Copy(served, families)
		}
		for _, m := range metrics.All {
			if served[m.Name] == nil && !slices.Contains(quiet, m.Name) {
				return fmt.Errorf("%s is not served", m.Name)
			}
		}
		return installed(served)
	})
	quietAndShown(t, scraped)
	_, text, err := w.asks("garrisond", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{w.Servers[0].Name, "beacon"} {
		if strings.Contains(text, name) {
			t.Errorf("a label names %s", name)
		}
	}
	w.sickAndSeen(scraped)
}

// installed returns an error unless the metrics show the installation of one agent on one server.
func installed(served map[string]*dto.MetricFamily) error {
	for _, want := range []struct {
		metric string
		labels map[string]string
		value  float64
	}{
		{metrics.TasksEnded, map[string]string{"outcome": "succeeded", "code": ""}, 1},
		{metrics.Servers, map[string]string{"presence": "online"}, 1},
		{metrics.Instances, map[string]string{"health": "good"}, 1},
		{metrics.TasksOpen, map[string]string{"state": "queued"}, 0},
		{metrics.ExecutorAgents, map[string]string{"health": "good"}, 1},
		{metrics.FoldReady, map[string]string{"service": "registry"}, 1},
	} {
		if have := value(served[want.metric], want.labels); have != want.value {
			return fmt.Errorf("%s%v is %v, want %v: %v", want.metric, want.labels, have, want.value,
				served[want.metric])
		}
	}
	if steps := served[metrics.TaskSeconds].GetMetric(); len(steps) == 0 {
		return fmt.Errorf("no step of a task was timed")
	}
	return nil
}

// value returns the value of the sample with some labels; -1 when there is no such sample.
func value(f *dto.MetricFamily, labels map[string]string) float64 {
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for name, v := range labels {
			fits = fits && have[name] == v
		}
		if fits {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return -1
}
