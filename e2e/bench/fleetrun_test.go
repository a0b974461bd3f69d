package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// round is what one change of all servers cost.
type round struct {
	seconds float64
	cpu     float64 // seconds of garrisond
	facts   float64
	bytes   float64
	mb      float64         // the most that was resident
	next    []time.Duration // from the end of a task to the next assignment, while tasks waited
}

// runs changes all servers again and again.
func (f *simulatedFleet) runs(rounds int) (out []round) {
	nc := f.unlimited(topology.AccountCore)
	js := must(nc.JetStream())(f.b)
	for range rounds {
		out = append(out, f.run(js))
		f.settle()
	}
	return out
}

// run changes all servers once.
func (f *simulatedFleet) run(js nats.JetStreamContext) (r round) {
	before := must(js.StreamInfo(topology.Ledger))(f.b)
	cpu := f.usage()
	most := f.watchMemory()
	began := time.Now()
	err := f.runner.Change(f.b.Context())
	r.seconds, r.mb = time.Since(began).Seconds(), most()/1024
	check(f.b, err)
	r.cpu = (f.usage().CPU - cpu.CPU).Seconds()
	f.settle() // what servers observe comes a moment later
	end := must(js.StreamInfo(topology.Ledger))(f.b)
	r.facts = float64(end.State.LastSeq - before.State.LastSeq)
	r.bytes = float64(end.State.Bytes - before.State.Bytes)
	r.next = f.admissions(before.State.LastSeq)
	return r
}

// watchMemory measures the resident memory of garrisond until the result is called, which returns the most.
func (f *simulatedFleet) watchMemory() func() float64 {
	done, most := make(chan struct{}), make(chan float64)
	go func() {
		var kb float64
		for {
			if now, err := rig.Uses(f.Garrisond.Pid()); err == nil {
				kb = max(kb, now.ResidentKB)
			}
			select {
			case <-done:
				most <- kb
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() float64 { close(done); return <-most }
}

// settle waits until the ledger rests.
func (f *simulatedFleet) settle() {
	conn := f.anyone()
	var last uint64
	since := time.Now()
	f.poll("the ledger rests", func() (bool, error) {
		s, err := conn.Stream(f.b.Context(), topology.Ledger)
		if err != nil || s.LastSequence != last {
			last, since = s.LastSequence, time.Now()
		}
		return time.Since(since) > 2*time.Second, err
	})
}

// admissions reads from the ledger how soon after the end of a task the next one was assigned, by the times at which
// the bus stored the facts. Assignments that came together count once, for the first end since those before them.
func (f *simulatedFleet) admissions(after uint64) (next []time.Duration) {
	c := f.client()
	var ended time.Time
	for e, err := range c.Events(f.b.Context(), client.Query{From: after + 1, Noun: ledger.Task}) {
		check(f.b, err)
		switch e.Name() {
		case "assigned":
			if !ended.IsZero() {
				next = append(next, e.StoredAt.Sub(ended))
			}
			ended = time.Time{}
		case "succeeded":
			if ended.IsZero() {
				ended = e.StoredAt
			}
		}
	}
	slices.Sort(next)
	return next
}

// figures prints the rounds at one concurrency, beside those of the bare bus.
func (f *simulatedFleet) figures(concurrency int, rounds []round, bare []bareRound) []figure {
	n := float64(f.servers)
	of := func(get func(round) float64) (out []float64) {
		for _, r := range rounds {
			out = append(out, get(r))
		}
		return out
	}
	ofBare := func(get func(bareRound) float64) (out []float64) {
		for _, r := range bare {
			out = append(out, get(r))
		}
		return out
	}
	rate := of(func(r round) float64 { return n / r.seconds })
	cpu := of(func(r round) float64 { return r.cpu * 1000 / n })
	bareRate := ofBare(func(r bareRound) float64 { return n / r.seconds })
	bareCPU := ofBare(func(r bareRound) float64 { return r.cpu * 1000 / n })
	facts := of(func(r round) float64 { return r.facts / n })
	kb := of(func(r round) float64 { return r.bytes / n / 1024 })
	named := func(text string) string { return f.named(fmt.Sprintf("up, %d at once, %s", concurrency, text)) }
	out := []figure{
		{named("s"), spread(of(func(r round) float64 { return r.seconds }), "%.2f"), "", "", ""},
		{named("tasks/s"), spread(rate, "%.0f"), "bare bus: " + spread(bareRate, "%.0f"),
			ratio(median(rate), median(bareRate)), ""},
		{named("CPU ms of garrisond a task"), spread(cpu, "%.2f"), "bare bus: " + spread(bareCPU, "%.2f"),
			ratio(median(cpu), median(bareCPU)), "<= 0.8"},
		{named("facts a task"), spread(facts, "%.2f"), "KiB: " + spread(kb, "%.1f"), "", ""},
		{named("most resident MB"), spread(of(func(r round) float64 { return r.mb }), "%.0f"), "", "", ""},
	}
	if concurrency < f.servers {
		next := rounds[len(rounds)-1].next
		if len(next) > 0 {
			ms := func(percent int) float64 { return next[(len(next)-1)*percent/100].Seconds() * 1000 }
			out = append(out, figure{named("from an end to the next assignment, ms"),
				fmt.Sprintf("p50 %.1f, p99 %.1f", ms(50), ms(99)), "", "", "p50 <= 5"})
		}
	}
	return out
}
