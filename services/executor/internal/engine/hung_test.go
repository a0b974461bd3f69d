package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// often has the health of agents checked all the time, and reported while they wait for a start.
func often(c *Config) {
	p := testPolicy
	p.First = time.Second
	c.CheckEvery, c.Supervisor = 50*time.Millisecond, testSupervisor(c.Root, p)
}

// restarted asserts that an agent says why its process was ended, and that another one takes its place. On a busy
// machine probes fail more often in a row before that is looked at.
func (r *running) restarted(was uint32, why string) {
	r.t.Helper()
	polltest.Glimpsed(r.t, "it says why it was ended", func() bool {
		return strings.Contains(r.the("cn-agent").GetReason(), " times in a row: "+why)
	})
	r.eventually("another process runs", func() bool {
		now := r.the("cn-agent").GetPid()
		return now != 0 && now != was
	})
}

func TestAnAgentThatAnswersNoProbeIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(often)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", asksAt(freeAddress(t))))), good)
	was := r.good("cn-agent", "1.0.0").GetPid()
	r.eventually("it answered", func() bool {
		return r.rooms.health.GoodSince("cn-agent", time.Now().Add(-time.Minute))
	})
	if err := syscall.Kill(int(was), syscall.SIGUSR1); err != nil { // it runs on and listens no more
		t.Fatal(err)
	}
	r.restarted(was, "dial tcp")
	r.eventually("it is good", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
}

func TestAnAgentIsRestartedAfterAsManyFailedProbesAsItsImageSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		after     uint32
		restarted bool
	}{{"two", 2, true}, {"never", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.run(often)
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "plain", checked, briefly,
				func(m *imagev1.Manifest) { m.Run.Ready.RestartAfter = &c.after }))), good)
			was := r.good("cn-agent", "1.0.0").GetPid()
			r.eventually("it answered", func() bool {
				return r.rooms.health.GoodSince("cn-agent", time.Now().Add(-time.Minute))
			})
			b.sicken("cn-agent")
			if c.restarted {
				r.restarted(was, "the probe ended with exit status 9")
				if err := os.Remove(filepath.Join(b.root.State("cn-agent"), "sick")); err != nil &&
					!errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				r.eventually("it is good",
					func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
				return
			}
			r.eventually("many probes failed", func() bool { return r.rooms.health.Failures("cn-agent").InARow > 6 })
			if now := r.the("cn-agent").GetPid(); now != was {
				t.Errorf("process %d was replaced by %d", was, now)
			}
		})
	}
}
