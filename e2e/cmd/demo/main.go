// Command demo shows Garrison at work: a control plane, three servers, and an agent
// that is installed, upgraded, rolled out in waves, upgraded through a crash, removed, and installed by
// default on a new server. It runs the shipped binaries and prints in plain words what it does.
//
//	demo --bin DIR [--agent beacon|node_exporter] [--keep]
//
// It exits with 0 and leaves no process and no file behind, except with --keep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

func main() {
	bin := flag.String("bin", "bin", "`DIRECTORY` with the binaries")
	agent := flag.String("agent", "beacon", "what to install: beacon or node_exporter")
	keep := flag.Bool("keep", false, "leave everything running at the end")
	flag.Parse()
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := run(ctx, *bin, *agent, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, agent string, keep bool) (err error) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "garrison-demo-")
	if err != nil {
		return err
	}
	f, err := fleet.New(fleet.Options{Bin: bin, Dir: dir})
	if err != nil {
		return err
	}
	s := &show{fleet: f}
	if s.agent, err = agentNamed(agent, bin); err != nil {
		return err
	}
	defer func() {
		if keep && err == nil {
			s.sayHowToGoOn(dir)
			return
		}
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("%w\n(everything is stopped; logs and data are in %s)", err, dir)
			return
		}
		if err = os.RemoveAll(dir); err == nil {
			fmt.Printf("\nDone in %.0f s. Every process ended, every file is gone.\n", time.Since(started).Seconds())
		}
	}()
	for _, act := range []func(context.Context) error{
		s.startGarrison, s.enrolServers, s.buildImages, s.installFirst, s.upgrade, s.askForWhatIsNot, s.rollout,
		s.upgradeThroughACrash, s.decommission, s.newServer, s.rebuildViews,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}
