// Package simulation simulates servers: each has its own key, credentials and connection, and the executor's own link,
// enrolment and renewal. Only the engine is pretended: it changes a map in memory instead of a machine.
//
// Guarantees:
//
//  1. What a server sends is made of the messages that the executor sends, in the same order, and is published until it
//     is acknowledged.
//  2. A server that is started again continues: it keeps its identity, agents, ended tasks and unacknowledged reports.
//  3. Which fault a server has, and how long a task takes, follows from the seed and the host name alone.
//  4. A fleet has one file open for each server, its connection, and SpareFiles more at most.
//  5. Check compares the ledger with what the servers did, and changes nothing.
package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/enrol"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

const (
	// joinsAtOnce is how many servers join at the same time.
	joinsAtOnce = 64
	// joinWithin bounds the join of one server.
	joinWithin = 2 * time.Minute
	// startsAtOnce is how many servers log in at the same time.
	startsAtOnce = 64
)

// Config configures a fleet. Dir and Servers must be set, and Token while a server did not join yet.
type Config struct {
	Settings
	Dir          string // what the servers keep; one process uses it at a time
	Servers      int
	Name         string // the host names begin with it; empty means sim
	Token        string // pooled, with enough uses
	URL          string // of the bus; empty means that of the token
	AllowPlain   bool   // a bus on another host may be without TLS
	PollInterval time.Duration
	BeatInterval time.Duration
	Log          zerolog.Logger
}

// Fleet is a number of simulated servers. Call Join, then Run.
type Fleet struct {
	Seen Seen

	cfg     Config
	boot    string
	files   files
	servers []*server
}

// New returns a fleet that has not joined.
func New(c Config) (*Fleet, error) {
	c.Name = cmp.Or(c.Name, "sim")
	c.PollInterval, c.BeatInterval = cmp.Or(c.PollInterval, time.Minute), cmp.Or(c.BeatInterval, 5*time.Second)
	if c.Dir == "" || c.Servers < 1 || c.Duration <= 0 {
		return nil, fault.New(fault.Invalid, "a fleet needs a directory, at least one server, and a duration")
	}
	if err := c.Shares.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the fleet: %w", err)
	}
	return &Fleet{cfg: c, boot: ident.New(), files: newFiles()}, nil
}

// Join joins the servers that did not join yet, each with a key of its own, and returns how many joined now.
func (f *Fleet) Join(ctx context.Context) (joined int, err error) {
	f.servers = make([]*server, f.cfg.Servers)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(joinsAtOnce)
	for n := range f.servers {
		g.Go(func() error {
			name := fmt.Sprintf("%s-%05d", f.cfg.Name, n+1)
			root, err := layout.New(filepath.Join(f.cfg.Dir, name))
			if err != nil {
				return err
			}
			s, err := f.open(root)
			if fault.Is(err, fault.NotFound) {
				if err = f.join(ctx, root); err == nil {
					mu.Lock()
					joined++
					mu.Unlock()
					s, err = f.open(root)
				}
			}
			if err != nil {
				return fmt.Errorf("join %s: %w", name, err)
			}
			f.servers[n] = s
			return nil
		})
	}
	return joined, g.Wait()
}

func (f *Fleet) join(ctx context.Context, root layout.Root) error {
	if f.cfg.Token == "" {
		return fault.New(fault.Invalid, "it did not join yet and there is no token. "+
			"Try: garrison token create NAME --uses %d > FILE, and --token-file FILE", f.cfg.Servers)
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	name := filepath.Base(string(root))
	_, err := enrol.Join(ctx, enrol.Invitation{
		Root: string(root), Token: f.cfg.Token, URL: f.cfg.URL, AllowPlain: f.cfg.AllowPlain, Log: f.cfg.Log,
		Sysinfo: func(context.Context) *serverv1.Sysinfo { return f.machine(name) },
	})
	return err
}

// machine returns what a simulated machine is.
func (f *Fleet) machine(name string) *serverv1.Sysinfo {
	return &serverv1.Sysinfo{Hostname: name, Platform: sysinfo.Platform(), ExecutorVersion: "simulated"}
}

// Run keeps the servers online until ctx is done. Its error counts the servers that ended by themselves, and names the
// first ones.
func (f *Fleet) Run(ctx context.Context) error {
	pace := make(chan struct{}, startsAtOnce)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for _, s := range f.servers {
		select {
		case pace <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			time.AfterFunc(startPause, func() { <-pace })
			if err := s.run(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				level := zerolog.ErrorLevel
				if len(errs) > namedEnds { // they are counted at the end
					level = zerolog.InfoLevel
				}
				f.cfg.Log.WithLevel(level).Err(err).Msg("simulated server ended")
			}
		})
	}
	all.Wait()
	return endedEarly(errs)
}

// startPause is the time for which a server that starts counts as logging in.
const startPause = 100 * time.Millisecond

// Truths returns what each server did, by its id.
func (f *Fleet) Truths() map[string]Truth {
	out := make(map[string]Truth, len(f.servers))
	for _, s := range f.servers {
		out[s.who.ServerID] = s.engine.truth()
	}
	return out
}

// WriteFaults writes how many servers have each fault to faults.json in the directory of the fleet.
func (f *Fleet) WriteFaults() error {
	data, err := json.Marshal(f.Faulty())
	if err != nil {
		return err
	}
	return layout.WriteVolatile(filepath.Join(f.cfg.Dir, "faults.json"), data, 0o600)
}

// Faulty counts the servers by fault.
func (f *Fleet) Faulty() map[Fault]int {
	out := map[Fault]int{}
	for _, s := range f.servers {
		out[s.engine.fault]++
	}
	return out
}

const (
	// SpareFiles is how many files a fleet has open at most beside one connection for each server.
	SpareFiles = 256
	// filesAtOnce is how many of them are the state and the credentials of servers.
	filesAtOnce = 64
	// namedEnds is how many of the servers that ended by themselves an error names.
	namedEnds = 3
)

// files bounds how many files the servers of a fleet have open at the same time, beside their connections.
type files chan struct{}

func newFiles() files { return make(files, filesAtOnce) }

// do waits for its turn, and calls work, which has one file open at a time.
func (f files) do(work func() error) error {
	f <- struct{}{}
	defer func() { <-f }()
	return work()
}

// credentials bounds a function that reads credentials.
func (f files) credentials(read func() (string, []byte, error)) func() (string, []byte, error) {
	return func() (jwt string, seed []byte, err error) {
		err = f.do(func() error {
			jwt, seed, err = read()
			return err
		})
		return jwt, seed, err
	}
}

// endedEarly returns one error for the servers that ended by themselves: how many there are, and why the first ones
// did; nil without any.
func endedEarly(all []error) error {
	if len(all) <= namedEnds {
		return errors.Join(all...)
	}
	return fmt.Errorf("%d servers ended by themselves; the first %d:\n%w", len(all), namedEnds,
		errors.Join(all[:namedEnds]...))
}
