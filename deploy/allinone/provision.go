package allinone

import (
	"context"
	"errors"
	"fmt"
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
	Replicas int  // how many servers keep each stream; as many are asked for their settings
	Lazy     bool // take a bus that does not sync each write to disk
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
	if err := as(ctx, a, topology.UserSystem, p.URL, func(c *bus.Conn) error { return checkSync(ctx, c, p) }); err != nil {
		return err
	}
	return as(ctx, a, topology.UserProvision, p.URL, func(c *bus.Conn) error { return c.Provision(ctx, p.Replicas) })
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

// checkSync refuses servers that acknowledge a write before it is on the disk.
func checkSync(ctx context.Context, c *bus.Conn, p Provisioning) error {
	settings, err := c.Settings(ctx, p.Replicas)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if !s.SyncAlways && !p.Lazy {
			return fmt.Errorf("server %s of the bus acknowledges facts before they are on the disk; set sync_interval: always in its jetstream block, or take the risk with --allow-lazy-sync", s.Server)
		}
	}
	return nil
}
