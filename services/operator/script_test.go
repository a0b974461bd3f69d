package operator

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect")

// TestTheCommandLineDoesWhatTheScriptsSay runs testdata/script/*.txtar. Each may say:
//
//	garrison ARG…     runs the command line, with the file stdin as standard input, if there is one; it
//	                  must end with 0; with ! before it, with another code
//	with-id ARG…      runs a command with ID replaced by the line in the file id, PREFIX by its beginning
//	code N            checks the last exit code
//	serve-debug FILE  serves a debug socket until the script ends
//	interrupt ARG…    runs the command line and interrupts it once its standard error has a line
//
// Scripts run side by side, so each has a bus and services of its own: what one creates no other one lists.
func TestTheCommandLineDoesWhatTheScriptsSay(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/config")
			e.Setenv("WEB1", web1)
			e.Setenv("FLAKY", ident.From("flaky", web2)) // the task that was undone
			if err := os.Chmod(e.WorkDir+"/ctx.json", 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			e.Values["code"] = new(int)
			e.Values["ran"] = map[string]bool{}
			e.Values["runner"] = startRunner(e.T().(testing.TB))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"garrison":  garrison,
			"interrupt": interrupt,
			"code":      checkCode,
			"with-id":   withID,

			"serve-debug": serveDebug,
		},
	})
}

type runner struct {
	t   testing.TB
	bus *bustest.Bus
	*fakes
}

func startRunner(t testing.TB) *runner {
	b := bustest.Start(t)
	return &runner{t: t, bus: b, fakes: startFakes(t, b)}
}

func newSession(ts *testscript.TestScript, out, errs io.Writer) *cli.Env {
	r := ts.Value("runner").(*runner)
	in, _ := os.ReadFile(ts.MkAbs("stdin")) // empty without the file
	s := cli.NewEnv(bytes.NewReader(in), out, errs, ts.Getenv)
	s.Now, s.SayEvery = func() time.Time { return noon }, time.Second
	s.Dial = func(o bus.Options) (*bus.Conn, error) {
		if strings.Contains(o.URL, "away") {
			return nil, fault.New(fault.Unavailable, "nothing listens there")
		}
		return r.bus.Dial(r.t, o.Name), nil
	}
	return s
}

func garrison(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var said bytes.Buffer
	code := run(ctx, newSession(ts, io.MultiWriter(ts.Stdout(), &said), io.MultiWriter(ts.Stderr(), &said)), args)
	runWhatWasPrinted(ts, args, said.String())
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
	out := signalling{word: args[0], cancel: cancel, to: ts.Stdout()}
	errs := signalling{word: args[0], cancel: cancel, to: ts.Stderr()}
	s := newSession(ts, out, errs)
	*ts.Value("code").(*int) = run(ctx, s, args[1:])
}

// serveDebug serves what a process would: the position, and the query that a view was given.
func serveDebug(ts *testscript.TestScript, _ bool, args []string) {
	var whole debug.State
	state := whole.Under("registry")
	state.Set("fold", func() any { return map[string]int{"position": 7} })
	state.SetQuery("view", func(query url.Values) any {
		if noun := query.Get("noun"); noun != "server" {
			return fault.New(fault.Invalid, "unknown noun %q (want server)", noun)
		}
		return query
	})
	socket := ts.MkAbs(args[0])
	ts.Defer(debug.Start(context.Background(), socket, &whole, zerolog.Nop()))
	for range 200 {
		if _, err := debug.Get(context.Background(), socket, "/"); err == nil {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	ts.Fatalf("nothing listens on %s after 5 s", socket)
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
		said = append(said, strings.NewReplacer("PREFIX", id[:30], "ID", id).Replace(a))
	}
	garrison(ts, neg, said)
}
