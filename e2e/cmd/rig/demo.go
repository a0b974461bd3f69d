package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// demo shows Garrison at work: a control plane, three servers, and an agent that is installed, upgraded, rolled out in
// waves, upgraded through a crash, removed, and installed by default on a new server. It prints in plain words what it
// does, and leaves no process and no file behind, except with --keep.
func demo(flags *flag.FlagSet) func(context.Context) error {
	bin := binaries(flags)
	agent := flags.String("agent", "beacon", "what to install: beacon or node_exporter")
	keep := flags.Bool("keep", false, "leave everything running at the end")
	return func(ctx context.Context) error {
		started := time.Now()
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		of, err := agentNamed(*agent, *bin)
		if err != nil {
			return err
		}
		if *keep {
			return kept(ctx, *bin, of)
		}
		err = rig.Temporary(rig.Options{Bin: *bin}, func(f *rig.Fleet) error {
			return (&show{fleet: f, agent: of}).play(ctx)
		})
		if err == nil {
			fmt.Printf("\nDone in %.0f s. Every process ended, every file is gone.\n", time.Since(started).Seconds())
		}
		return err
	}
}

// kept plays the demo and leaves everything running.
func kept(ctx context.Context, bin string, of agent) error {
	dir, err := os.MkdirTemp("", "garrison-demo-")
	if err != nil {
		return err
	}
	f, err := rig.New(rig.Options{Bin: bin, Dir: dir, Metrics: true})
	if err != nil {
		return err
	}
	s := &show{fleet: f, agent: of}
	if err := s.play(ctx); err != nil {
		return errors.Join(err, f.Close())
	}
	s.sayHowToGoOn(dir)
	return nil
}

// play does one act after the other.
func (s *show) play(ctx context.Context) error {
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

// agent is what the demo installs, in two versions.
type agent struct {
	name     string
	versions [2]string
	prepare  func(dir, version string) error                          // fills a directory to build an image from
	version  func(ctx context.Context, s *rig.Server) (string, error) // asks the running agent
}

func agentNamed(name, bin string) (agent, error) {
	switch name {
	case "beacon":
		return agent{
			name: "beacon", versions: [2]string{"1.0.0", "2.0.0"},
			prepare: func(dir, version string) error {
				return sample.Version{Version: version, Ready: "10s", Soak: "300ms", Stop: "5s"}.Fill(bin, dir)
			},
			version: func(ctx context.Context, s *rig.Server) (string, error) { return s.Get(ctx, "/") },
		}, nil
	case "node_exporter":
		return agent{
			name: "node-exporter", versions: [2]string{"1.9.1", "1.10.2"},
			prepare: func(dir, version string) error {
				return sample.Fill(dir, filepath.Join(bin, "node_exporter-"+version), "node_exporter",
					exporterRecipe(version))
			},
			version: scrapedVersion,
		}, nil
	}
	return agent{}, fmt.Errorf("unknown agent %q (want beacon or node_exporter)", name)
}

func exporterRecipe(version string) string {
	return `agent: node-exporter
version: ` + version + `
kind: daemon
description: Prometheus exporter of a machine's metrics
run:
  command: node_exporter
  args: ["--web.listen-address=127.0.0.1:${label.port}"]
  takeover: restart
  ready: {http: "http://127.0.0.1:${label.port}/metrics", timeout: 20s, soak: 300ms}
  stop_timeout: 5s
`
}

// scrapedVersion scrapes the exporter and reads its version from its build information.
func scrapedVersion(ctx context.Context, s *rig.Server) (string, error) {
	body, err := s.Get(ctx, "/metrics")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(body, "node_exporter_build_info{")
	line, _, _ := strings.Cut(rest, "\n")
	_, rest, found := strings.Cut(line, `,version="`)
	version, _, closed := strings.Cut(rest, `"`)
	if !ok || !found || !closed {
		return "", fmt.Errorf("the metrics of %s hold no version of the exporter", s.Name)
	}
	return version, nil
}
