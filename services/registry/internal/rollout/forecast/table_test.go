package forecast_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

var (
	runs    = flag.Int("runs", 3, "how many runs each row of the table has")
	servers = flag.Int("servers", 1000, "how many virtual servers")
)

// TestTheStandardStrategyFindsFaults prints the table of deploy/docs/rollouts.md. With few runs it requires only what
// holds for every seed.
func TestTheStandardStrategyFindsFaults(t *testing.T) {
	fmt.Println("| new version | strategy | halted | wave | servers touched, p50 / p90 | broken, p50 / p90 | " +
		"time to halt, p50 / p90 | time to the end, p50 |\n|---|---|---|---|---|---|---|---|")
	for _, f := range []struct {
		name  string
		fault forecast.Fault
	}{
		{"good", forecast.Fault{}},
		{"breaks 0.5 %", forecast.Fault{Share: 0.005, Late: 0.5}},
		{"breaks 2 %", forecast.Fault{Share: 0.02, Late: 0.5}},
		{"breaks 5 %", forecast.Fault{Share: 0.05, Late: 0.5}},
		{"breaks 100 %", forecast.Fault{Share: 1, Late: 0.5}},
		{"breaks on riscv64", forecast.Fault{Share: 1, Late: 0.5, Field: "platform", Value: "linux/riscv64"}},
	} {
		for _, strategy := range []string{"standard", "one wave"} {
			w := forecast.Virtual(*servers, 1)
			if w.Fault = f.fault; strategy == "one wave" {
				w.Strategy = &rolloutv1.Strategy{SuccessPercent: 99}
			}
			o, err := forecast.Runs(nil, w, *runs)
			if err != nil {
				t.Fatal(err)
			}
			if f.fault.Share == 1 && strategy == "standard" && o.Halts < *runs {
				t.Errorf("%s: %d of %d runs halted", f.name, o.Halts, *runs)
			}
			fmt.Printf("| %s | %s | %d of %d | %s | %d / %d | %d / %d | %s / %s | %s |\n",
				f.name, strategy, o.Halts, o.Runs, waves(o),
				o.Touched50, o.Touched90, o.Broken50, o.Broken90, short(o.Halted50), short(o.Halted90),
				short(o.Took50))
		}
	}
}

// waves lists in which waves runs halted.
func waves(o forecast.Outlook) (text string) {
	for n := range uint32(6) {
		if o.HaltedIn[n] > 0 {
			text += fmt.Sprintf("%d× in %d ", o.HaltedIn[n], n)
		}
	}
	return text
}

func short(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(time.Second).String()
}
