package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// What the engine is configured with and returns, by the names of the packages that define it.
type (
	// Fetcher fetches the chunks of images.
	Fetcher = steps.Fetcher
	// Keep says which replaced versions stay on the disk.
	Keep = store.Keep
	// Self replaces the executor's own program.
	Self = steps.Self
	// Bus reports whether the bus answers.
	Bus = steps.Bus
	// HandOver is what the executor passes to its successor.
	HandOver = steps.HandOver
	// Become ends this process in favour of another program.
	Become = steps.Become
	// TrialResult is how the trial of a new executor ended.
	TrialResult = steps.TrialResult
)

// DefaultKeep is for production.
var DefaultKeep = store.DefaultKeep

// Config is what an engine needs. What may be missing says so.
type Config struct {
	Root       layout.Root
	ServerID   string
	BootID     string
	Version    string // the executor's own
	Journal    *journal.Journal
	Fetcher    Fetcher // nil means that there is no bus to fetch from
	Supervisor supervise.Supervisor
	Sysinfo    func(context.Context) *serverv1.Sysinfo
	Log        zerolog.Logger
	Keep       Keep          // which replaced versions stay on the disk
	CheckEvery time.Duration // between two checks of the agents' health
	// ContentEvery is what a round that reads the content of installed images aims at; 0 means 45 s.
	ContentEvery time.Duration
	LookEvery    time.Duration // between two looks at the machine; 0 means a minute
	LookRest     time.Duration // after a change of the machine is reported; 0 means ten minutes
	// HearWithin is how long an interrupted change waits for a document before it resumes; 0 means no wait.
	HearWithin time.Duration
	StopAgents bool // stop the agents with the executor
	Trial      bool // this executor is on trial: it keeps agents running and changes nothing else
	Self       Self // how the executor replaces itself; nil when it cannot
	Bus        Bus  // whether the bus answers; nil when that does not matter

	// Trust refuses an image that is not trusted. Nil trusts all.
	Trust func(*imagev1.Manifest) error
	// Believe reports whether a document that is not older may be followed. Nil means yes.
	Believe func(*desiredv1.Document) bool

	// The functions below are called when something happened, must not block, and may be nil.
	Progress  func(*taskv1.Progress) // while a task runs
	NotTaken  func(lineage.Relation) // why documents are not taken; Same when they are again
	ReadAgain func()                 // the document should be read again
	Left      func(Remains)          // what is left of the agents while the server is dead
	Doubted   func(Doubt)            // what keeps the inventory from being trusted changed
	FailPoint func(point string)     // for tests: called between the steps of a change and within them
}

const (
	machineEvery = time.Minute
	// machineRest is how long after a reported change of the machine the next one is not
	// reported: an address that comes and goes must not fill the ledger.
	machineRest = 10 * time.Minute
)

// withDefaults returns the configuration without nil functions and zero intervals.
func (c Config) withDefaults() Config {
	c.ContentEvery = cmp.Or(c.ContentEvery, contentEvery)
	c.LookEvery, c.LookRest = cmp.Or(c.LookEvery, machineEvery), cmp.Or(c.LookRest, machineRest)
	if c.Fetcher == nil {
		c.Fetcher = noFetcher{}
	}
	if c.Trust == nil {
		c.Trust = func(*imagev1.Manifest) error { return nil }
	}
	if c.Believe == nil {
		c.Believe = func(*desiredv1.Document) bool { return true }
	}
	if c.Progress == nil {
		c.Progress = func(*taskv1.Progress) {}
	}
	if c.NotTaken == nil {
		c.NotTaken = func(lineage.Relation) {}
	}
	if c.ReadAgain == nil {
		c.ReadAgain = func() {}
	}
	if c.Left == nil {
		c.Left = func(Remains) {}
	}
	if c.Doubted == nil {
		c.Doubted = func(Doubt) {}
	}
	if c.FailPoint == nil {
		c.FailPoint = func(string) {}
	}
	return c
}

// noFetcher fetches nothing.
type noFetcher struct{}

// Fetch implements Fetcher.
func (noFetcher) Fetch(context.Context, *imagev1.Blob, func(uint64)) error {
	return fault.New(fault.Unavailable, "no image can be fetched without the bus")
}
