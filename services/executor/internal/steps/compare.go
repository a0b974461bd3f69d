package steps

import (
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// Reload is what a process of the same image needs to see what differs.
type Reload string

// The ways of a reload.
const (
	ReloadNothing Reload = ""
	ReloadSignal  Reload = "signal"
	ReloadRestart Reload = "restart"
)

// Compare compares the new version with the old one and with what runs.
type Compare struct {
	Processes *agent.Processes
	Whole     func(*change.Instance) bool // as of a recent look
}

// Reload returns what the process needs when the image stays. It is the same before and after
// a crash, since it only depends on the record.
func (c Compare) Reload(r *change.Record) Reload {
	if r.From.Foreign() || r.Verb == taskv1.Verb_VERB_RESTART {
		return ReloadRestart
	}
	was, err := c.Processes.Fill(agent.Installed(r.From))
	now, err2 := c.Processes.Fill(agent.Coming(r))
	switch {
	case err != nil || err2 != nil || !was.Same(now) || r.Repairs == change.RepairsImage:
		return ReloadRestart
	case configInUse(r) && r.Repairs == "":
		return ReloadNothing
	case r.To.GetRun().GetReload() == imagev1.Reload_RELOAD_SIGNAL:
		return ReloadSignal
	}
	return ReloadRestart
}

// Signals reports whether the same process goes on with a signal.
func (c Compare) Signals(r *change.Record) bool {
	return r.SameImage() && c.Reload(r) == ReloadSignal
}

// Runs reports whether the wanted version is the one that runs, from whole files, and needs no
// restart for what differs. Then its health is checked again, and it is not restarted.
func (c Compare) Runs(r *change.Record) bool {
	if !r.SameImage() || !c.Whole(r.From) || c.Reload(r) == ReloadRestart {
		return false
	}
	u := c.Processes.Known(r.Agent, r.To.GetId())
	return u != nil && u.Status().Pid != 0
}

// Idle reports whether nothing of the agent is made from the metadata that changed, and what
// was asked for runs already.
func (c Compare) Idle(r *change.Record) bool {
	if r.Verb != taskv1.Verb_VERB_CONFIGURE || !r.SameImage() || c.Reload(r) != ReloadNothing {
		return false
	}
	return !r.To.IsDaemon() || c.Runs(r)
}

// Replaced reports whether another process runs than the one that got the signal: the
// supervisor may have restarted it, with what made the first one end.
func (c Compare) Replaced(r *Run) bool {
	if c.Reload(r.Record) != ReloadSignal {
		return false
	}
	u := c.Processes.Known(r.Agent, r.To.GetId())
	return u == nil || u.Status().Pid != r.signalled
}

// Overlaps reports whether the old version runs until the new one passes its health check.
func Overlaps(r *change.Record) bool {
	return r.To.GetRun().GetTakeover() == imagev1.Takeover_TAKEOVER_OVERLAP && !r.SameImage() &&
		(r.From == nil || r.From.Adopted == nil) // it listens by itself
}

// configInUse reports whether the new configuration is the one that the old version has.
func configInUse(r *change.Record) bool { return r.From != nil && r.From.Rendered == r.Rendered }

func isKind(m change.Manifest, k agentv1.Kind) bool { return m.GetKind() == k }

// Sameness finds changes that ask for what is installed and runs: their health is checked, and nothing is touched.
type Sameness struct {
	Configs agent.Configs
	Compare Compare
}

// Touches reports whether a change may touch its agent. It may be asked before the configuration is rendered.
func (s Sameness) Touches(r *Run) bool {
	if r.Removes() || !r.SameImage() || r.From.Foreign() {
		return true
	}
	tree, err := s.Configs.Render(agent.Coming(r.Record))
	if err != nil {
		return true
	}
	coming := *r.Record
	coming.Rendered = tree.Digest()
	if s.Compare.Reload(&coming) != ReloadNothing {
		return true
	}
	return !s.Compare.Whole(r.From) || r.To.IsDaemon() && !s.Compare.Runs(&coming)
}
