package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/sockets"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Parallel is how many changes are under way at most.
const Parallel = 4

// ErrDead is what Run returns when a document said that the server is dead, and every agent is gone.
var ErrDead = errors.New("the server is dead")

// Fetcher brings every chunk of a blob into the cache, each one verified. It tries until
// ctx is done or it is known that it cannot work.
type Fetcher interface {
	Fetch(ctx context.Context, b *imagev1.Blob, progress func(done uint64)) error
}

// Config is what an engine needs. Everything but Progress and FailPoint must be set.
type Config struct {
	Root       layout.Root
	ServerID   string
	BootID     string
	Journal    *journal.Journal
	Fetcher    Fetcher
	Sysinfo    func(context.Context) *serverv1.Sysinfo
	Progress   func(*taskv1.Progress) // told while a task runs; must not block
	Policy     supervise.Policy
	CheckEvery time.Duration // how often the agents' health is looked at
	StopAgents bool          // end the agents with the executor
	Log        zerolog.Logger
	FailPoint  func(point string) // for tests: told between the steps of a change
}

// Engine is the half of the executor that changes the server.
type Engine struct {
	cfg     Config
	images  *imagedir.Images
	sockets *sockets.Set

	offers  chan *desiredv1.Document // the newest document that was not taken yet
	ended   chan string              // agents whose change has ended
	stirred chan struct{}            // an agent changed by itself

	mu    sync.Mutex
	units map[string]map[string]*supervise.Unit // by agent and image id
	sick  map[string]string                     // why an agent's probe fails, by agent
	steps map[string]taskv1.Step                // what is being done, by agent

	// Owned by Run's goroutine.
	document *desiredv1.Document
	busy     map[string]bool
	tried    map[string]time.Time
	said     *reportv1.AgentsReport
	sysinfo  *serverv1.Sysinfo
	changes  sync.WaitGroup
}

// New gives an engine.
func New(cfg Config) *Engine {
	if cfg.Progress == nil {
		cfg.Progress = func(*taskv1.Progress) {}
	}
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) {}
	}
	e := &Engine{
		cfg: cfg, images: imagedir.New(cfg.Root),
		offers: make(chan *desiredv1.Document, 1), ended: make(chan string, Parallel), stirred: make(chan struct{}, 1),
		units: map[string]map[string]*supervise.Unit{}, sick: map[string]string{},
		steps: map[string]taskv1.Step{},
		busy:  map[string]bool{}, tried: map[string]time.Time{},
	}
	e.sockets = e.newSockets()
	return e
}

// Offer hands over a document. It never blocks; an older one that waits is replaced.
func (e *Engine) Offer(d *desiredv1.Document) {
	for {
		select {
		case e.offers <- d:
			return
		default:
		}
		select {
		case waiting := <-e.offers:
			if waiting.GetGeneration() > d.GetGeneration() {
				d = waiting
			}
		default:
		}
	}
}

// Run recovers and then converges until ctx is done, which is no error, or the server is dead.
func (e *Engine) Run(ctx context.Context) error {
	for _, dir := range []string{e.cfg.Root.Agents(), e.cfg.Root.Images(), e.cfg.Root.Cache()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	defer e.leave()
	if err := e.recover(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := e.sayStart(ctx); err != nil {
		return err
	}
	e.cfg.FailPoint("recovered")
	err := e.loop(ctx)
	e.changes.Wait()
	return err
}

func (e *Engine) loop(ctx context.Context) error {
	check := time.NewTicker(e.cfg.CheckEvery)
	defer check.Stop()
	info := time.NewTicker(sysinfoEvery)
	defer info.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case d := <-e.offers:
			err = e.take(ctx, d)
		case agent := <-e.ended:
			delete(e.busy, agent)
			err = e.converge(ctx)
		case <-e.stirred:
			err = e.sayAgents("", false)
		case <-check.C:
			e.checkHealth(ctx)
			err = errors.Join(e.sayAgents("", false), e.converge(ctx))
		case <-info.C:
			err = e.saySysinfo(ctx, "", false)
		}
		if err == nil && e.dead() {
			err = e.bury(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// take makes a document the one to converge to, unless it is older than one taken before.
func (e *Engine) take(ctx context.Context, d *desiredv1.Document) error {
	stale := false
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		if stale = d.GetGeneration() < tx.Applied(); stale || d.GetGeneration() == tx.Applied() {
			return nil
		}
		return tx.SetApplied(d.GetGeneration())
	})
	if err != nil || stale {
		return err
	}
	if !proto.Equal(d, e.document) {
		e.cfg.Log.Info().Uint64("generation", d.GetGeneration()).Int("count", len(d.GetEntries())).Msg("document taken")
	}
	e.document = d
	if err := e.answerRequests(ctx); err != nil {
		return err
	}
	if err := e.repeatEnds(); err != nil {
		return err
	}
	return e.converge(ctx)
}

// converge begins the changes that may begin now.
func (e *Engine) converge(ctx context.Context) error {
	if e.document == nil || e.dead() {
		return nil
	}
	s, err := e.situation()
	if err != nil {
		return err
	}
	for _, a := range plan.Next(e.document, s) {
		if len(e.busy) >= Parallel {
			return nil
		}
		if err := e.begin(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// stir tells the loop that an agent changed by itself.
func (e *Engine) stir() {
	select {
	case e.stirred <- struct{}{}:
	default:
	}
}

// leave ends the watching of agents, and the agents themselves if it was asked for.
func (e *Engine) leave() {
	e.changes.Wait()
	var all sync.WaitGroup
	for _, u := range e.allUnits() {
		all.Go(func() {
			u.Leave()
			if !e.cfg.StopAgents {
				return
			}
			if err := u.Stop(); err != nil {
				e.cfg.Log.Error().Err(err).Msg("agent not stopped")
			}
		})
	}
	all.Wait()
	e.sockets.Close() // agents that run have their own
}
