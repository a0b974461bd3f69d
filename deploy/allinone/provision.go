package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Provisioning describes a bus that runs elsewhere and gets its streams.
type Provisioning struct {
	Data     string // the data directory with the keys
	URL      string
	Replicas int                 // how many servers keep each stream, and are asked for their settings
	Lazy     bool                // accept a bus that does not sync each write to disk
	DryRun   bool                // change nothing
	Audit    topology.CopyBounds // of the copy of the ledger; no bytes mean no copy
	// AllowPlain allows a bus on another host without TLS.
	AllowPlain bool
	Log        io.Writer // what is changed, or would be
}

// Provision declares the streams on a bus that runs elsewhere. It waits a minute for the bus, and for
// a leader of its servers. It refuses a bus that acknowledges writes before they are on disk, unless Lazy is set.
func Provision(ctx context.Context, p Provisioning) error {
	if p.URL == "" {
		return errors.New("--url is missing: pass the address of the bus")
	}
	if err := checkPermissions(p.Data); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := trust.OpenAuthority(filepath.Join(p.Data, "trust")); err != nil {
		return err
	}
	want := topology.Bus{Replicas: p.Replicas}
	err := p.as(ctx, topology.UserSystem, func(c *bus.Conn) error {
		return p.onceReady(ctx, func(ctx context.Context) (err error) {
			want.SyncsAlways, err = checkSync(ctx, bus.NewSystem(c), p)
			return err
		})
	})
	if err != nil {
		return err
	}
	return p.as(ctx, topology.UserProvision, func(c *bus.Conn) error {
		s := bus.NewStreams(c)
		var plan topology.Plan
		err := p.onceReady(ctx, func(ctx context.Context) (err error) {
			plan, err = s.Topology(ctx, want)
			return err
		})
		if err != nil {
			return err
		}
		printPlan(p.Log, plan)
		if !p.DryRun {
			err = s.Provision(ctx, want)
		}
		if err != nil {
			return err
		}
		return p.as(ctx, topology.UserProvisionCopy, func(to *bus.Conn) error { return p.copy(ctx, s, to) })
	})
}

// copy declares the copy of the ledger, or deletes it, and prints what that takes.
func (p Provisioning) copy(ctx context.Context, s *bus.Streams, to *bus.Conn) error {
	return p.onceReady(ctx, func(ctx context.Context) error {
		plan, err := s.Copy(ctx, bus.Copying{To: to, Bounds: p.Audit, Replicas: p.Replicas})
		if err != nil {
			return err
		}
		for _, c := range plan.Changes {
			if p.Log != nil {
				fmt.Fprintf(p.Log, "  %s\n", c)
			}
		}
		if p.DryRun {
			return nil
		}
		return plan.Apply(ctx)
	})
}

const (
	// askedWithin is how long the bus has for one answer: without a leader it does not answer.
	askedWithin = 5 * time.Second
	askedEvery  = 500 * time.Millisecond
)

// onceReady asks the bus, and again while its servers are not all there or have no leader. It prints what it waits for.
func (p Provisioning) onceReady(ctx context.Context, ask func(context.Context) error) error {
	said := false
	for {
		once, cancel := context.WithTimeout(ctx, askedWithin)
		err := ask(once)
		cancel()
		if err == nil || ctx.Err() != nil || !bus.NotReady(err) {
			return err
		}
		if !said && p.Log != nil {
			fmt.Fprintf(p.Log, "waiting for the servers of the bus, and for one to lead: %v\n", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askedEvery):
		}
	}
}

// printPlan prints what brings a bus to this program's topology.
func printPlan(w io.Writer, p topology.Plan) {
	if w == nil {
		return
	}
	switch {
	case p.From.Newer():
		fmt.Fprintf(w, "the bus has topology %d, this program knows %d: it stays as it is\n", p.From.Number,
			topology.Number)
	case len(p.Changes) == 0:
		fmt.Fprintf(w, "the bus has topology %d: nothing to change\n", topology.Number)
	case p.New:
		fmt.Fprintf(w, "the bus is new: it gets topology %d\n", topology.Number)
	default:
		for _, s := range p.Steps {
			fmt.Fprintf(w, "step %d %s: %s\n", s.To, s.Name, s.What)
		}
		for _, c := range p.Changes {
			fmt.Fprintf(w, "  %s\n", c)
		}
	}
}

// as connects as one of the authority's users for as long as do takes.
func (p Provisioning) as(ctx context.Context, user string, do func(*bus.Conn) error) error {
	file := filepath.Join(p.Data, "trust", "tls", "ca.pem")
	known := bus.TLS{Source: file, Renew: "garrisond keys --data DIR --url URL", AllowPlain: p.AllowPlain}
	if _, err := os.Stat(file); err == nil {
		known.CA = trust.ReadBundle(file)
	}
	c, err := bus.Dial(bus.Options{
		URL: p.URL, Name: user, TLS: known, Log: zerolog.Nop(), Persist: true,
		Credentials: trust.ReadCredentials(trust.ServiceCredentials(filepath.Join(p.Data, "trust"), user)),
		API:         topology.APIOf(user),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := p.waitConnected(ctx, c); err != nil {
		return err
	}
	return do(c)
}

const (
	// sayAway is how often it is printed that a bus cannot be reached.
	sayAway = 5 * time.Second
	// sayAwayFirst is how long a bus has until that is printed for the first time.
	sayAwayFirst = 500 * time.Millisecond
)

// waiter is a connection to wait for.
type waiter interface {
	WaitConnected(ctx context.Context) error
	Away() error // why the last try failed; nil before the first one did
}

// waitConnected waits until the bus can be reached, and prints why it cannot: soon, and again while it waits.
func (p Provisioning) waitConnected(ctx context.Context, c waiter) error {
	for wait := sayAwayFirst; ; {
		once, cancel := context.WithTimeout(ctx, wait)
		err := c.WaitConnected(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		away := c.Away()
		if away == nil {
			continue
		}
		if p.Log != nil {
			fmt.Fprintf(p.Log, "waiting for the bus at %s: %v\n", p.URL, away)
		}
		wait = sayAway
	}
}

// checkSync reports whether every server acknowledges writes only when they are on its disk.
// It returns an error for one that does not, unless Lazy is set.
func checkSync(ctx context.Context, system *bus.System, p Provisioning) (always bool, err error) {
	settings, err := system.Settings(ctx, p.Replicas)
	if err != nil {
		return false, err
	}
	always = true
	for _, s := range settings {
		if !s.SyncAlways && !p.Lazy {
			return false, fmt.Errorf("server %s of the bus acknowledges facts before they are on the disk; "+
				"set sync_interval: always in its jetstream block, or accept the risk with --allow-lazy-sync", s.Server)
		}
		always = always && s.SyncAlways
	}
	return always, nil
}
