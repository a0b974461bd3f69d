package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/sample"
)

// The agents. Both are the program beacon; tuner reads a configuration and has a rehearsal.
const (
	beacon = "beacon"
	tuner  = "tuner"
)

// Versions of beacon and tuner that work, and of beacon that fail their health check.
var (
	goodVersions = []string{"1.0.0", "2.0.0"}
	badVersions  = map[string]string{"3.1.0": "exit", "3.2.0": "never-ready"}
)

// payload is a file of every image that no program reads; rounds damage it.
const payload = "payload"

// prepareAgents imports every version of both agents and installs the first on all servers.
func (w *World) prepareAgents(ctx context.Context) error {
	if _, err := w.CLI(ctx, "agent", "create", beacon, "--kind", "daemon"); err != nil {
		return err
	}
	if _, err := w.CLI(ctx, "agent", "create", tuner, "--kind", "daemon", "--set", "level=0"); err != nil {
		return err
	}
	for _, v := range goodVersions {
		if err := w.importImage(ctx, beacon, v, w.beaconRecipe(v, "")); err != nil {
			return err
		}
		if err := w.importImage(ctx, tuner, v, tunerRecipe(v)); err != nil {
			return err
		}
	}
	recipe := strings.Replace(w.beaconRecipe(cutting, ""), "soak: ", "bus: 3s, soak: ", 1)
	if err := w.importImage(ctx, beacon, cutting, recipe); err != nil {
		return err
	}
	for v, misbehave := range badVersions {
		if err := w.importImage(ctx, beacon, v, w.beaconRecipe(v, misbehave)); err != nil {
			return err
		}
	}
	for _, agent := range []string{beacon, tuner} {
		if _, err := w.CLI(ctx, "install", agent+"@"+goodVersions[0], "--on", "all"); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) importImage(ctx context.Context, agent, version, recipe string) error {
	dir := filepath.Join(w.Dir, "images", agent+"-"+version)
	if err := sample.Fill(dir, filepath.Join(w.Bin, "beacon"), agent, recipe); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"VERSION": version, payload: agent + version, "tuner.tmpl": "level={{.metadata.level}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return sample.Activate(ctx, w.CLI, dir)
}

func (w *World) beaconRecipe(version, misbehave string) string {
	ready := "30s" // a busy machine may need it
	if misbehave != "" {
		ready = "3s"
	}
	return sample.Version{Version: version, Misbehave: misbehave, Ready: ready, Soak: "300ms", Stop: "2s"}.Recipe()
}

func tunerRecipe(version string) string {
	return `agent: tuner
version: ` + version + `
kind: daemon
run:
  command: tuner
  args: ["-listen", "127.0.0.1:${label.tuner}", "-version", "${version}", "-config", "${config}/tuner.conf"]
  configs: [{template: tuner.tmpl, path: tuner.conf}]
  rehearsal: {command: tuner, args: ["-check", "-config", "${config}/tuner.conf"]}
  ready: {http: "http://127.0.0.1:${label.tuner}/healthz", timeout: 30s, soak: 300ms}
  stop_timeout: 2s
`
}
