package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// agent is what the demo installs, in two versions.
type agent struct {
	name     string
	versions [2]string
	prepare  func(dir, version string) error                            // fills a directory to build an image from
	version  func(ctx context.Context, s *fleet.Server) (string, error) // asks the running agent
}

func agentNamed(name, bin string) (agent, error) {
	switch name {
	case "beacon":
		return agent{
			name: "beacon", versions: [2]string{"1.0.0", "2.0.0"},
			prepare: func(dir, version string) error {
				return sample.Version{Version: version, Ready: "10s", Soak: "300ms", Stop: "5s"}.Fill(bin, dir)
			},
			version: func(ctx context.Context, s *fleet.Server) (string, error) { return s.Get(ctx, "/") },
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
func scrapedVersion(ctx context.Context, s *fleet.Server) (string, error) {
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
