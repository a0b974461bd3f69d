package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Growing describes the move of a bus to a cluster of servers.
type Growing struct {
	Data     string // the data directory with the keys, which both have in common
	URL      string // of the bus of one server
	To       string // of the cluster
	Replicas int    // how many servers keep each stream
	Lazy     bool   // accept a cluster that does not sync each write to disk
	DryRun   bool   // log what would be moved, and change nothing
	// AllowPlain allows a bus on another host without TLS.
	AllowPlain bool
	Log        io.Writer // what is copied, and how long writes were away
}

// growWithin bounds a move.
const growWithin = time.Hour

// Grow moves every stream from a bus of one server to a cluster; see bus.Growth. The services are to be restarted with
// the address of the cluster after it, and the old server stopped.
func Grow(ctx context.Context, g Growing) error {
	switch {
	case g.URL == "":
		return errors.New("--url is missing: pass the address of the bus of one server")
	case g.To == "":
		return errors.New("--to is missing: pass the addresses of the cluster")
	case g.Replicas < 2:
		return errors.New("--replicas must be 2 or more, and no more than the cluster has servers; pass 3")
	}
	if err := checkPermissions(g.Data); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, growWithin)
	defer cancel()
	if _, err := trust.OpenAuthority(filepath.Join(g.Data, "trust")); err != nil {
		return err
	}
	old := Provisioning{Data: g.Data, URL: g.URL, Replicas: 1, Lazy: true, AllowPlain: g.AllowPlain, Log: g.Log}
	cluster := old
	cluster.URL, cluster.Replicas, cluster.Lazy = g.To, g.Replicas, g.Lazy
	want := topology.Bus{Replicas: g.Replicas}
	err := cluster.as(ctx, topology.UserSystem, func(c *bus.Conn) error {
		return cluster.onceReady(ctx, func(ctx context.Context) (err error) {
			want.SyncsAlways, err = checkSync(ctx, bus.NewSystem(c), cluster)
			return err
		})
	})
	if err != nil {
		return err
	}
	return old.as(ctx, topology.UserProvision, func(oldConn *bus.Conn) error {
		return cluster.as(ctx, topology.UserProvision, func(newConn *bus.Conn) error {
			from, to := bus.NewStreams(oldConn), bus.NewStreams(newConn)
			err := cluster.onceReady(ctx, func(ctx context.Context) error { return to.Leads(ctx) })
			if err != nil {
				return err
			}
			return g.move(ctx, bus.Growth{From: from, To: to, Want: want})
		})
	})
}

func (g Growing) move(ctx context.Context, move bus.Growth) error {
	move.Say = func(format string, args ...any) {
		if g.Log != nil {
			fmt.Fprintf(g.Log, format+"\n", args...)
		}
	}
	if g.DryRun {
		return move.DryRun(ctx)
	}
	done, err := move.Run(ctx)
	if err != nil {
		return err
	}
	if done.Already {
		move.Say("the streams are in the cluster already")
	} else {
		move.Say("%d messages are in the cluster; no bus took writes for %.1f s so far", done.Messages,
			done.WritesOff.Seconds())
	}
	move.Say("the bus at %s no longer takes writes: stop it. Then start each garrisond of the cluster again without "+
		"--services none, or services of their own with --bus %s", g.URL, g.To)
	return nil
}
