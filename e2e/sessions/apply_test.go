package sessions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

const declared = `format: 1
channels:
  beta:
    description: For the canaries
applications:
  site:
    description: The site
    metadata:
      level: info
agents:
  agents_core:
    kind: daemon
    application: site
    dependencies:
      - beacon
  beacon:
    description: A beacon
environments:
  prod:
    channel: beta
    metadata:
      text: "two\nlines: \u00e9"
    defaults:
      beacon:
        image:
          channel: beta
        metadata:
          speed: slow
        reach: all
labelRules:
  penguins:
    when:
      - os=linux
      - memory>=1GiB
    labels:
      family: penguin
servers:
  4QENZE2:
    id: 4c4c4544-0051-4510-804e-b4c04f5a4532
    labels:
      rack_row: a
    environment: prod
`

// A fleet lives in a file: an apply makes it, another one changes nothing, and its export makes the same fleet on an
// empty control plane, byte for byte.
func TestAnExportIsTheSameOnAnEmptyControlPlane(t *testing.T) {
	t.Parallel()
	first := &world{scenario.New(t, rig.Options{})}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		scenario.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	fleetFile := file("fleet.yaml", declared)
	first.OK("apply", "-f", fleetFile, "--invite", filepath.Join(dir, "tokens"), "--yes")
	if token, err := os.Stat(filepath.Join(dir, "tokens", "4QENZE2.token")); err != nil || token.Mode() != 0o600 {
		t.Errorf("token: %v, %v", token, err)
	}
	before := first.OK("events", "--since", "10m", "-o", "json")
	if again := first.OK("apply", "-f", fleetFile, "--yes"); again != "" {
		t.Errorf("the second apply changes\n%s", again)
	}
	if after := first.OK("events", "--since", "10m", "-o", "json"); after != before {
		t.Error("the second apply wrote facts")
	}
	// Another operator's fields stay; what the file has no more goes.
	first.OK("env", "update", "prod", "--set", "hand=1")
	first.OK("server", "set", "4QENZE2", "hand=1")
	for _, change := range []string{"rack_row: a=rack_row: b", "level: info=size: 5"} {
		have, next, _ := strings.Cut(change, "=")
		first.OK("apply", "-f", file("changed.yaml", strings.Replace(declared, have, next, 1)), "--yes")
	}
	exported := first.OK("export")
	for _, want := range []string{"hand: \"1\"", "rack_row: a", "size: \"5\"", "reach: all"} {
		if !strings.Contains(exported, want) {
			t.Errorf("the export lacks %s:\n%s", want, exported)
		}
	}
	if strings.Contains(exported, "level:") {
		t.Errorf("the value that the file has no more is there:\n%s", exported)
	}
	// Prune refuses what is in use, and does the rest.
	rest := file("rest.yaml", "format: 1\nchannels: {beta: {}}\nagents: {beacon: {}}\nenvironments: {prod: {}}\n")
	out, err := first.CLI(t.Context(), "apply", "-f", rest, "--prune", "--yes")
	if err != nil || !strings.Contains(out, "delete") {
		t.Errorf("prune: %v\n%s", err, out)
	}

	second := &world{scenario.New(t, rig.Options{})}
	second.OK("apply", "-f", file("export.yaml", exported), "--invite", filepath.Join(dir, "tokens2"), "--yes")
	if got := second.OK("export"); got != exported {
		t.Errorf("the export of the copy is\n%s\nwant\n%s", got, exported)
	}
	out, err = second.CLI(t.Context(), "apply", "-f", fleetFile, "--dry-run")
	if err == nil || !strings.Contains(out, "metadata.level") {
		t.Errorf("dry run: %v\n%s", err, out)
	}
}
