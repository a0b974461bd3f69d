package observe

import (
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

// Failures are the failed probes of a process in a row.
type Failures struct {
	Pid    int
	InARow int
	Silent int // of the last of them, how many in a row got no answer
	Since  time.Time
}

// silentProbes is how many probes in a row may get no answer, where an image does not say more: a minute of them.
const silentProbes = 4

// Due reports whether the process is to be restarted, with the value of run.ready.restart_after.
func (f Failures) Due(after *uint32) bool {
	if after == nil {
		return f.Silent >= silentProbes
	}
	return *after > 0 && f.InARow >= int(*after)
}

// count counts the result of a probe that began at a time. A process that never answered since its start has the time
// of its first health check before its failures count.
func (a *probed) count(p Probe, began time.Time, err error) {
	f := a.failures
	if err == nil || f.Pid != p.Pid {
		f = Failures{Pid: p.Pid}
	}
	if err != nil && p.Pid != 0 && (a.good.After(p.StartedAt) || began.Sub(p.StartedAt) > p.Slow) {
		if f.InARow++; f.InARow == 1 {
			f.Since = began
		}
		if f.Silent++; !healthcheck.Silent(err) {
			f.Silent = 0
		}
	}
	a.failures = f
}
