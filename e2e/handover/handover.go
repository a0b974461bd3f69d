// Package handover upgrades an agent that has a socket, many times, while clients send it
// requests, and counts the requests without an answer. make handover and the scenarios use it.
package handover

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// Versions are the two between which an agent goes back and forth.
var Versions = [2]string{"1.1.0", "2.1.0"}

// Way is how one version replaces the other.
type Way struct {
	Takeover string // restart or overlap
	Itself   bool   // each version opens its socket by itself, to see what that loses
}

// Prepare imports both versions of beacon. The agent must be known.
func Prepare(ctx context.Context, f *rig.Fleet, w Way) error {
	for _, version := range Versions {
		v := sample.Version{
			Version: version, Takeover: w.Takeover, Socket: !w.Itself, Ready: "10s", Soak: "100ms", Stop: "10s",
		}
		if err := sample.Import(ctx, f.CLI, f.Bin, f.Dir, v); err != nil {
			return err
		}
	}
	return nil
}

// Run installs the first version on the fleet's one server and upgrades it back and
// forth, upgrades times, while clients send it requests. It calls report after each.
func Run(
	ctx context.Context, f *rig.Fleet, s *rig.Server, upgrades int, clients load.Clients, report func(done int),
) (load.Count, error) {
	if _, err := f.CLI(ctx, "install", "beacon@"+Versions[0], "--on", "all"); err != nil {
		return load.Count{}, err
	}
	t := load.Begin(s.URL(), clients)
	for n := 1; n <= upgrades; n++ {
		if _, err := f.CLI(ctx, "up", "beacon@"+Versions[n%2], "--on", "all", "--yes"); err != nil {
			return t.Stop(), fmt.Errorf("upgrade %d: %w", n, err)
		}
		report(n)
	}
	return t.Stop(), nil
}
