package sessions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// programs are the programs of proto/INTENTS.md in other languages than Go: by what they are run, and where the
// libraries lie that stand for those that they import.
var programs = map[string]struct{ with, file string }{
	"python": {"python3", "program.py"},
	"js":     {"node", "program.mjs"},
}

// Each program on the page of the contract connects to a garrisond as it is started without flags: it trusts the CA of
// the context. The libraries of NATS are not those of the languages, so others stand for them here, which do the
// handshake and print the intent.
func TestTheProgramsOfTheContractTrustTheCAOfTheContext(t *testing.T) {
	t.Parallel()
	f := scenario.Simulated(t, rig.Options{})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "proto", "INTENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for language, c := range programs {
		t.Run(language, func(t *testing.T) {
			found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
			if found == nil {
				t.Fatal("the page has no program")
			}
			if _, err := exec.LookPath(c.with); err != nil {
				t.Skip(err)
			}
			dir := scenario.ShortDir(t)
			scenario.Must(t, os.WriteFile(filepath.Join(dir, c.file), found[1], 0o600))
			scenario.Must(t, os.CopyFS(filepath.Join(dir, "libraries"), os.DirFS("testdata/programs")))
			modules := filepath.Join(dir, "node_modules", "@nats-io")
			scenario.Must(t, os.MkdirAll(modules, 0o755))
			scenario.Must(t, os.Symlink(filepath.Join(dir, "libraries"), filepath.Join(modules, "transport-node")))
			cmd := exec.CommandContext(scenario.Within(t, time.Minute), c.with, c.file)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "libraries"),
				"GARRISON_CONTEXT="+f.ContextFile())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text := strings.ReplaceAll(string(out), `": `, `":`)
			for _, want := range []string{
				"proved itself by TLSv1.3",
				"asks " + topology.IntentSubject(topology.VerbInstall, "operator", ""),
				`"agent":"beacon"`, `"all":true`, `"Nats-Expected-Last-Subject-Sequence":"0"`, "stored",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}
