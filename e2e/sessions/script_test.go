package sessions_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/printed"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// The CLI as people use it, against a whole Garrison: each session in testdata/script has one of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
			testscript.RunT(session{t}, testscript.Params{
				Files: []string{file},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"holds": holds, "nfpm": nfpmCommand, "registry": registryCommand,
				},
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", scenario.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
					e.Setenv("GARRISON_CONTEXT", w.ContextFile())
					e.Setenv("IMAGES", w.Dir)
					e.Setenv("DATA", w.DataDir())
					return nil
				},
			})
		})
	}
}

// session runs a script as a part of the test that started its Garrison. In a parallel test of its own, as package
// testscript does it, the script waits for a turn until every other Garrison has started too and idles. What the script
// printed offers only commands with verbs and flags that exist.
type session struct{ *testing.T }

// Parallel implements testscript.T.
func (session) Parallel() {}

// Run implements testscript.T.
func (s session) Run(_ string, script func(testscript.T)) { script(s) }

// Verbose implements testscript.T: the log holds all sections.
func (session) Verbose() bool { return true }

// Log implements testscript.T.
func (s session) Log(args ...any) {
	s.T.Helper()
	s.T.Log(args...)
	var said strings.Builder
	for line := range strings.Lines(fmt.Sprint(args...)) {
		if !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "# ") { // the script itself
			said.WriteString(line)
		}
	}
	ran := map[string]bool{}
	for _, c := range printed.InOutput("garrison", said.String()) {
		if !ran[c.Line] && !printed.Placeholder.MatchString(c.Line) {
			ran[c.Line] = true
			s.exists(c.Line)
		}
	}
}

// exists fails when a command that the script printed has a verb or a flag that does not exist. Nothing runs.
func (s session) exists(line string) {
	s.Helper()
	words := strings.Fields(line)
	help := exec.CommandContext(s.Context(), filepath.Join(scenario.Bin, "garrison"), append(words, "--help")...)
	if said, err := help.CombinedOutput(); err != nil || !strings.Contains(string(said), "garrison "+words[0]) {
		s.Errorf("the script printed garrison %s: %v: %s", line, err, said)
	}
}

// holds FILE WANT waits until FILE has the same bytes as WANT: an agent handles a signal in its own time.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: holds FILE WANT")
	}
	want := ts.ReadFile(args[1])
	have := ""
	if !polltest.Within(polltest.Limit, func() bool {
		have = ts.ReadFile(args[0])
		return have == want
	}) {
		ts.Fatalf("%s holds\n%s\nwant\n%s", args[0], have, want)
	}
}
