package bus

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A client of several servers has others to go to, and leaves one that stands still sooner.
func TestAClientOfSeveralServersPingsMoreOften(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{
		"nats://127.0.0.1:1":                    topology.PingEvery,
		"nats://127.0.0.1:1,nats://127.0.0.2:1": topology.PingEveryOfSeveral,
	} {
		c, err := Dial(Options{URL: url, Name: "x", Persist: true, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if got := c.nc.Opts.PingInterval; got != want {
			t.Errorf("%s: a ping every %v, want %v", url, got, want)
		}
	}
}
