package sessions_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// prometheusDir holds the rules and the dashboard.
var prometheusDir = filepath.Join("..", "..", "deploy", "prometheus")

var alarmsPage = filepath.Join("..", "..", "deploy", "docs", "alarms.md")

// fires holds for each alarm series that let it fire; half an hour of samples, one each minute.
var fires = map[string]string{
	"GarrisonDown":              `up{job="garrison"} 0x30`,
	"GarrisonNotOnBus":          `garrison_bus_connected{service="access"} 0x30`,
	"GarrisonFoldBehind":        `garrison_fold_lag_facts{service="access"} 1001x30`,
	"GarrisonFactsUnread":       `garrison_fold_unread_facts{service="access"} 1x30`,
	"GarrisonAppendsFail":       `garrison_appends_total{service="access",result="unavailable"} 0+1x30`,
	"GarrisonQueueGrows":        `garrison_queue_depth{service="access",queue="appends"} 5001x30`,
	"GarrisonTasksFail":         `garrison_tasks_ended_total{service="t",outcome="failed",code="EXITED"} 0+1x30`,
	"GarrisonServersOffline":    `garrison_servers{service="registry",presence="offline"} 1x30`,
	"GarrisonServersDistrusted": `garrison_servers_standing{service="registry",standing="quarantined"} 1x30`,
	"GarrisonBusAlarm":          `garrison_bus_alarms{service="access",cause="no-leader"} 1x30`,
	"GarrisonBusSpace":          `garrison_bus_free_bytes{service="access"} 1e9x30`,
	"GarrisonWebhookStuck":      `garrison_webhook_state{service="gateway",route="ops",state="disabled"} 1x30`,
	"GarrisonWebhookDead":       `garrison_webhook_deliveries_total{service="gateway",route="a",result="dead"} 0+1x30`,
	"GarrisonExecutorSuspended": `garrison_executor_state{state="suspended"} 1x30`,
	"GarrisonExecutorCutOff":    `garrison_executor_connected 0x30`,
}

// alarms reads the rules as Prometheus does.
func alarms(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(prometheusDir, "garrison.rules.yml"), false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// evaluates returns the result of an expression at the end of half an hour in which series had samples.
func evaluates(t *testing.T, s storage.Queryable, expression string) promql.Vector {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	q, err := engine.NewInstantQuery(t.Context(), s, nil, expression, time.Unix(0, 0).Add(30*time.Minute))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer q.Close()
	v, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return slices.Clone(v)
}

func TestEachAlarmFiresAndThePageExplainsIt(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(alarmsPage)
	if err != nil {
		t.Fatal(err)
	}
	all := alarms(t)
	if len(all) != len(fires) {
		t.Errorf("%d alarms, %d with series that let them fire", len(all), len(fires))
	}
	for _, a := range all {
		row := fmt.Sprintf("\n| %s | %s |", a.Alert, a.Labels["severity"])
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row for %s", a.Alert)
		}
		s := promqltest.LoadedStorage(t, "load 1m\n  "+fires[a.Alert]+"\n")
		if len(evaluates(t, s, a.Expr)) == 0 {
			t.Errorf("%s does not fire with %s", a.Alert, fires[a.Alert])
		}
		_ = s.Close()
	}
}

// scrape is what was scraped from each process.
type scrape map[string]map[string]*dto.MetricFamily

// series writes half an hour of samples: those of before, and from the middle on those of after.
func series(before, after scrape) string {
	var b strings.Builder
	b.WriteString("load 1m\n")
	for process, families := range after {
		fmt.Fprintf(&b, "  up{job=\"garrison\",instance=%q} 1x30\n", process)
		for name, f := range families {
			was := map[string]float64{}
			for _, m := range before[process][name].GetMetric() {
				was[labelsOf(process, m)] = numberOf(m)
			}
			for _, m := range f.GetMetric() {
				labels := labelsOf(process, m)
				for _, bucket := range m.GetHistogram().GetBucket() {
					fmt.Fprintf(&b, "  %s_bucket{%s,le=\"%v\"} 0+%dx30\n", name, labels, bucket.GetUpperBound(),
						bucket.GetCumulativeCount())
				}
				if m.GetHistogram() == nil && m.GetSummary() == nil {
					fmt.Fprintf(&b, "  %s{%s} %vx14 %vx15\n", name, labels, was[labels], numberOf(m))
				}
			}
		}
	}
	return b.String()
}

func labelsOf(process string, m *dto.Metric) string {
	labels := fmt.Sprintf("instance=%q", process)
	for _, l := range m.GetLabel() {
		labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
	}
	return labels
}

func numberOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

// firing returns the alarms that fire after half an hour.
func firing(t *testing.T, before, after scrape) (names []string) {
	t.Helper()
	s := promqltest.LoadedStorage(t, series(before, after))
	defer func() { _ = s.Close() }()
	for _, a := range alarms(t) {
		if len(evaluates(t, s, a.Expr)) > 0 {
			names = append(names, a.Alert)
		}
	}
	return names
}

// On a fleet with trouble the alarms fire that speak of it, and the first look at each shows something.
func (w *world) sickAndSeen(healthy scrape) {
	w.T.Helper()
	w.Image("3.0.0", "exit")
	w.Fails(1, "undone", "up", "beacon@3.0.0", "--on", "all", "--yes")
	w.OK("server", "quarantine", w.Servers[0].Name, "-m", "looks odd", "--yes")
	want := []string{"GarrisonTasksFail", "GarrisonServersOffline", "GarrisonServersDistrusted"}
	w.Eventually("the alarms fire", func() error {
		families, err := w.scrape("garrisond")
		if err != nil {
			return err
		}
		have := firing(w.T, healthy, scrape{"garrisond": families})
		if !slices.Equal(have, want) {
			return fmt.Errorf("%v fire, want %v", have, want)
		}
		return nil
	})
	page, err := os.ReadFile(alarmsPage)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, alarm := range want {
		row := regexp.MustCompile(`(?m)^\| ` + alarm + ` \|.*`).FindString(string(page))
		look := regexp.MustCompile("`garrison (.*?)`").FindStringSubmatch(row)
		if look == nil {
			w.T.Errorf("the page has no first look for %s", alarm)
		} else if rows := w.OK(append(strings.Fields(look[1]), "-o", "name")...); strings.TrimSpace(rows) == "" {
			w.T.Errorf("garrison %s shows nothing while %s fires", look[1], alarm)
		}
	}
}

// On a fleet without trouble no alarm fires, and each panel of the dashboard shows something.
func quietAndShown(t *testing.T, scraped scrape) {
	t.Helper()
	if names := firing(t, scraped, scraped); len(names) > 0 {
		t.Errorf("%v fire on a fleet without trouble", names)
	}
	s := promqltest.LoadedStorage(t, series(scraped, scraped))
	defer func() { _ = s.Close() }()
	text, err := os.ReadFile(filepath.Join(prometheusDir, "garrison.dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			if v := evaluates(t, s, target.Expr); len(v) == 0 {
				t.Errorf("the panel %q shows nothing: %s", p.Title, target.Expr)
			}
		}
	}
}
