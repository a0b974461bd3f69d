package sessions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/polltest"

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
				Cmds:  map[string]func(*testscript.TestScript, bool, []string){"holds": holds},
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
// testscript does it, the script waits for a turn until every other Garrison has started too and idles.
type session struct{ *testing.T }

// Parallel implements testscript.T.
func (session) Parallel() {}

// Run implements testscript.T.
func (s session) Run(_ string, script func(testscript.T)) { script(s) }

// Verbose implements testscript.T.
func (session) Verbose() bool { return testing.Verbose() }

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
