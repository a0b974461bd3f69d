package rollout

import (
	"fmt"
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/keep"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Batch is how many servers one decision releases or silences at most; the next decision takes the next ones.
const Batch = 500

// Input is what a decision rests on. Functions that are nil return nothing.
type Input struct {
	Rollout *rolloutv1.Rollout
	Now     time.Time
	// Pending returns the pending servers of a wave, in the order of the plan, later ones behind.
	Pending func(wave uint32) iter.Seq[string]
	// Returned returns the owed servers that are online, with their waves.
	Returned func() iter.Seq2[string, uint32]
	// Silent returns the servers that were reached or succeeded and are offline, with since when, the longest first.
	Silent func() iter.Seq2[string, time.Time]
	// Due returns the servers under way on which the next step of their changes is due.
	Due func() iter.Seq[*rolloutv1.Target]
	// Closed returns why a server must not be changed now, "" when it may be, and until when; zero means without end.
	Closed func(server string) (until time.Time, why string)
	// Paused is why no server may be changed now, "" without a pause of the site, and PausedUntil when that ends.
	Paused      string
	PausedUntil time.Time
	// Unprimed returns pending servers that were not asked to fetch ahead what the rollout brings.
	Unprimed func() iter.Seq[string]
	// Ahead reports whether a server may fetch ahead now, and when it may next; zero when never.
	Ahead func(server string) (open bool, next time.Time)
	// Field returns the value of a server's field of a keep budget.
	Field func(server, field string) string
	// Works reports whether a server is online, healthy and not under way.
	Works func(server string) bool
	// Standing returns the keep budgets of a server's environment, which all rollouts share.
	Standing func(server string) []Standing
	// Working returns how many servers with a field's value work, and how many there are.
	Working func(field, value string) (working, all int)
	// Refused returns why what the rollout brings may no longer come to a server, or nil.
	Refused func(server string) *apiv1.Refusal
}

// Standing is a keep budget of an environment, as it is for one server.
type Standing struct {
	Keep  *rolloutv1.Keep
	Group keep.Group
	Count keep.Count
}

// Decision is the one next thing to do. At most one of Open, Pass, Release, Silence, Prime, Halt and Succeed is set.
type Decision struct {
	Open, Pass uint32         // the wave to open or to pass
	Release    []string       // the servers to change next, at most Batch
	Wave       uint32         // the wave of Release, or the wave that Halt is about
	Step       uint32         // of Release: the later step that begins on servers under way; 0 for the first
	Silence    []string       // the servers that were silent for too long, at most Batch
	Prime      []string       // the servers that fetch ahead next
	Halt       *apiv1.Refusal // why the rollout halts
	Succeed    bool           // every wave passed
	Owed       uint32         // with Succeed: how many servers are owed
	Next       time.Time      // when to decide again without any fact; zero when only facts matter
	Waits      string         // in one sentence, what it waits for; empty when there is something to do
	Immovable  bool           // a keep budget needs every server of a group, and holds some of them back
}

// Acts reports whether there is something to do.
func (d Decision) Acts() bool {
	return d.Open+d.Pass > 0 || len(d.Release)+len(d.Silence)+len(d.Prime) > 0 || d.Halt != nil || d.Succeed
}

// Decide returns the next thing to do for a rollout.
func Decide(in Input) Decision {
	r := in.Rollout
	switch r.GetState() {
	case rolloutv1.State_STATE_RUNNING:
	case rolloutv1.State_STATE_SUCCEEDED:
		return serveLate(in)
	case rolloutv1.State_STATE_PLANNED:
		return Decision{Waits: fmt.Sprintf("the rest of its plan: %d of %d parts are recorded", r.Parts, r.OfParts)}
	case rolloutv1.State_STATE_PAUSED, rolloutv1.State_STATE_HALTED:
		return Decision{Waits: rollouts.NeedText(r, in.Now)}
	default:
		return Decision{}
	}
	d := run(in)
	if d.begins() {
		d = d.Hold(r, doubt(in))
	}
	d.prime(in)
	return d
}

// run returns the next thing to do for a rollout that runs, but for what is fetched ahead.
func run(in Input) (d Decision) {
	r := in.Rollout
	if begins := r.StartAt.AsTime(); rollouts.Scheduled(r) && in.Now.Before(begins) {
		return Decision{Next: begins, Waits: "its start at " + begins.UTC().Format("2006-01-02 15:04:05 UTC")}
	}
	if d.silence(in); d.Acts() {
		return d
	}
	if d.Halt = verdict(r); d.Halt != nil {
		d.Wave = max(1, current(r))
		return d
	}
	if d.advance(in); d.Acts() {
		return refuse(in, d)
	}
	wave := rollouts.Current(r)
	if wave == 0 {
		return finish(in, d)
	}
	w := rollouts.Wave(r, wave)
	if w.OpenedAt == nil {
		return begin(in, d, wave)
	}
	if d = gate(in, d, wave, w); d.Pass > 0 {
		return d
	}
	if d = release(in, d, wave); d.Acts() {
		return refuse(in, d)
	}
	return serveOwed(in, d)
}

// refuse turns a release into a halt when what it brings was blocked since the plan was made.
func refuse(in Input, d Decision) Decision {
	for _, server := range d.Release {
		if why := in.refused(server); why != nil {
			return Decision{Halt: why, Wave: max(1, current(in.Rollout))}
		}
	}
	return d
}

func (in Input) refused(server string) *apiv1.Refusal {
	if in.Refused == nil {
		return nil
	}
	return in.Refused(server)
}

// silence collects servers that were away for too long.
func (d *Decision) silence(in Input) {
	if in.Silent == nil {
		return
	}
	for server, since := range in.Silent() {
		end := since.Add(silenceOf(in.Rollout))
		if end.After(in.Now) {
			d.at(end)
			return
		}
		if d.Silence = append(d.Silence, server); len(d.Silence) == Batch {
			return
		}
	}
}

// at notes a time at which to decide again.
func (d *Decision) at(t time.Time) {
	if d.Next.IsZero() || t.Before(d.Next) {
		d.Next = t
	}
}

// waitFor adds something to what a decision waits for, unless there is something to do.
func (d *Decision) waitFor(what string) {
	switch {
	case d.Acts():
	case d.Waits == "":
		d.Waits = what
	default:
		d.Waits += "; " + what
	}
}

// begin opens the next wave, unless something is to happen before.
func begin(in Input, d Decision, wave uint32) Decision {
	if d.Waits = rollouts.NeedText(in.Rollout, in.Now); d.Waits == "" {
		d.Open = wave
		return d
	}
	return refuse(in, release(in, d, wave-1))
}

// finish ends a rollout whose waves passed, once what was left in them ended too.
func finish(in Input, d Decision) Decision {
	r := in.Rollout
	left := total(r, pending) + total(r, reached)
	if left == 0 || enough(&d, in) {
		d.Succeed, d.Owed = true, uint32(total(r, owed)+total(r, pending)+countOf(r.Owed, owed))
		return d
	}
	if d = release(in, d, uint32(len(r.Waves))); d.Acts() {
		return refuse(in, d)
	}
	if d.Waits == "" {
		d.Waits = some(total(r, reached)) + " under way"
	}
	return serveOwed(in, d)
}

// some returns a number of servers in words.
func some(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

func current(r *rolloutv1.Rollout) uint32 {
	if n := rollouts.Current(r); n > 0 {
		return n
	}
	return uint32(len(r.Waves))
}
