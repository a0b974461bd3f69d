package operator

import (
	"context"
	"flag"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect")

// TestTheCommandLineDoesWhatTheScriptsSay runs testdata/script/*.txtar. Each may say:
//
//	garrison ARG…     runs the command line, which must end with 0; with ! before it, with another code
//	with-id ARG…      runs a command with ID replaced by the line in the file id
//	code N            checks the last exit code
//	interrupt ARG…    runs the command line and interrupts it once its standard error has a line
//
// Scripts run side by side, so each has a bus and services of its own: what one creates no other one lists.
func TestTheCommandLineDoesWhatTheScriptsSay(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/config")
			e.Setenv("WEB1", web1)
			e.Setenv("FLAKY", ident.From("flaky", web2)) // the task that was undone
			e.Values["code"] = new(int)
			e.Values["runner"] = startRunner(e.T().(testing.TB))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"garrison":  garrison,
			"interrupt": interrupt,
			"code":      checkCode,
			"with-id":   withID,
		},
	})
}

type runner struct {
	t   testing.TB
	bus *bustest.Bus
}

func startRunner(t testing.TB) *runner {
	b := bustest.Start(t)
	startFakes(t, b)
	return &runner{t: t, bus: b}
}

func newSession(ts *testscript.TestScript) *session {
	r := ts.Value("runner").(*runner)
	return &session{
		in: strings.NewReader(""), out: ts.Stdout(), err: ts.Stderr(), getenv: ts.Getenv,
		now: func() time.Time { return noon }, sayEvery: time.Second,
		dial: func(o bus.Options) (*bus.Conn, error) {
			if strings.Contains(o.URL, "away") {
				return nil, fault.New(fault.Unavailable, "nothing listens there")
			}
			return r.bus.Dial(r.t, o.Name), nil
		},
	}
}

func garrison(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	code := newSession(ts).run(ctx, args)
	*ts.Value("code").(*int) = code
	if (code != 0) != neg {
		ts.Fatalf("exit code %d", code)
	}
}

// signalling ends a context at the first line that holds a word.
type signalling struct {
	word   string
	cancel context.CancelFunc
	to     interface{ Write([]byte) (int, error) }
}

func (s signalling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.word) {
		s.cancel()
	}
	return s.to.Write(p)
}

func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newSession(ts)
	s.err = signalling{word: args[0], cancel: cancel, to: s.err}
	s.out = signalling{word: args[0], cancel: cancel, to: s.out}
	*ts.Value("code").(*int) = s.run(ctx, args[1:])
}

func checkCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := *ts.Value("code").(*int); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func withID(ts *testscript.TestScript, neg bool, args []string) {
	id := strings.TrimSpace(ts.ReadFile("id"))
	var said []string
	for _, a := range args[1:] {
		said = append(said, strings.ReplaceAll(a, "ID", id))
	}
	garrison(ts, neg, said)
}
