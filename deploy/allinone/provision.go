package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Provisioning says where a bus that runs elsewhere is to get its streams.
type Provisioning struct {
	Data     string // the data directory with the keys
	URL      string
	Replicas int       // how many servers keep each stream; as many are asked for their settings
	Lazy     bool      // take a bus that does not sync each write to disk
	DryRun   bool      // change nothing
	Log      io.Writer // what is changed, or would be
}

// Provision declares the streams on a bus that runs elsewhere. It waits for the bus for
// a minute. It refuses a bus that acknowledges what is not on the disk, unless told to take it.
func Provision(ctx context.Context, p Provisioning) error {
	if p.URL == "" {
		return errors.New("--url is missing: say where the bus is")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	a, err := trust.OpenAuthority(filepath.Join(p.Data, "trust"))
	if err != nil {
		return err
	}
	want := topology.Bus{Replicas: p.Replicas}
	err = as(ctx, a, topology.UserSystem, p.URL, func(c *bus.Conn) (err error) {
		want.SyncsAlways, err = checkSync(ctx, c, p)
		return err
	})
	if err != nil {
		return err
	}
	return as(ctx, a, topology.UserProvision, p.URL, func(c *bus.Conn) error {
		plan, err := c.Topology(ctx, want)
		if err != nil {
			return err
		}
		printPlan(p.Log, plan)
		if p.DryRun {
			return nil
		}
		return c.Provision(ctx, want)
	})
}

// printPlan prints what brings a bus to this program's topology.
func printPlan(w io.Writer, p topology.Plan) {
	if w == nil {
		return
	}
	switch {
	case p.From.Newer():
		fmt.Fprintf(w, "the bus has topology %d, this program knows %d: it is left as it is\n", p.From.Number, topology.Number)
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
func as(ctx context.Context, a *trust.Authority, user, url string, do func(*bus.Conn) error) error {
	c, err := bus.Dial(bus.Options{
		URL: url, Name: user, Log: zerolog.Nop(), Persist: true,
		Credentials: trust.ReadCredentials(a.ServiceCredentials(user)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.WaitConnected(ctx); err != nil {
		return err
	}
	return do(c)
}

// checkSync reports whether every server acknowledges only what is on its disk, and
// refuses one that does not, unless that risk is taken.
func checkSync(ctx context.Context, c *bus.Conn, p Provisioning) (always bool, err error) {
	settings, err := c.Settings(ctx, p.Replicas)
	if err != nil {
		return false, err
	}
	always = true
	for _, s := range settings {
		if !s.SyncAlways && !p.Lazy {
			return false, fmt.Errorf("server %s of the bus acknowledges facts before they are on the disk; "+
				"set sync_interval: always in its jetstream block, or take the risk with --allow-lazy-sync", s.Server)
		}
		always = always && s.SyncAlways
	}
	return always, nil
}
