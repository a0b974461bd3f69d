package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Fault is what is wrong with a server.
type Fault string

// The faults.
const (
	Healthy    Fault = "healthy"
	Failing    Fault = "failing"    // each change is rolled back; each removal fails
	Silent     Fault = "silent"     // it sends beats and takes documents, and begins no task
	Slow       Fault = "slow"       // each task takes slowFactor times as long
	Flapping   Fault = "flapping"   // its connection breaks every few seconds
	Misleading Fault = "misleading" // it reports success and changes nothing
	Hanging    Fault = "hanging"    // a change of an agent that it has begins, and never ends
	Vanishing  Fault = "vanishing"  // it goes away forever once an agent is on it
)

// Faults are all faults, in the order in which they are counted.
var Faults = []Fault{Healthy, Failing, Silent, Slow, Flapping, Misleading, Hanging, Vanishing}

const (
	slowFactor = 10
	flapEvery  = 10 * time.Second // on average
)

// Shares are the parts of the fleet with a fault, from 0 to 1. A server has one fault at most.
type Shares struct{ Failing, Silent, Slow, Flapping, Misleading, Hanging, Vanishing float64 }

// Check refuses shares that no fleet can have.
func (s Shares) Check() error {
	sum := 0.0
	for _, p := range s.parts() {
		if p.share < 0 || p.share > 1 {
			return fmt.Errorf("the share of %s servers is %v; want 0 to 1", p.fault, p.share)
		}
		sum += p.share
	}
	if sum > 1 {
		return fmt.Errorf("the shares add up to %v; want 1 at most", sum)
	}
	return nil
}

type part struct {
	fault Fault
	share float64
}

func (s Shares) parts() []part {
	return []part{
		{Failing, s.Failing}, {Silent, s.Silent}, {Slow, s.Slow}, {Flapping, s.Flapping}, {Misleading, s.Misleading},
		{Hanging, s.Hanging}, {Vanishing, s.Vanishing},
	}
}

// Bad is a version that does not work on a share of the servers: each change to it is rolled back there. The zero value
// names no version.
type Bad struct {
	Version string
	Share   float64
}

// hits reports whether a version does not work on the server with a host name.
func (b Bad) hits(seed uint64, name, version string) bool {
	return b.Version != "" && version == b.Version && random(seed, "bad", name, version).Float64() < b.Share
}

// of returns the fault of the server with a host name. It does not depend on how many servers there are.
func (s Shares) of(seed uint64, name string) Fault {
	at := random(seed, "fault", name).Float64()
	for _, p := range s.parts() {
		if at < p.share {
			return p.fault
		}
		at -= p.share
	}
	return Healthy
}

// random returns a source that depends on the seed and the words alone.
func random(seed uint64, words ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = h.Write(append([]byte(w), 0)) // a hash does not fail
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// lasts returns how long a task takes: from half to one and a half times the mean.
func (f Fault) lasts(mean time.Duration, seed uint64, task string) time.Duration {
	d := mean/2 + time.Duration(random(seed, "task", task).Float64()*float64(mean))
	if f == Slow {
		d *= slowFactor
	}
	return d
}
