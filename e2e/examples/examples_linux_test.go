// Package examples_test runs each example that the help of garrison prints, against whole Garrisons.
//
// Each script in testdata is a session with a Garrison of its own: it brings the fleet into the state that examples
// need, and names the commands whose examples run then. The examples themselves are the help's: a new one of a command
// runs where its others do, and the last script runs those of commands that no script names.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/pages"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

func TestMain(m *testing.M) { scenario.Main(m) }

// library and rest are scripts: what all share, and the one that runs the examples of commands that no other names.
const library, rest = "lib.sh", "day.sh"

func TestEveryExampleOfEveryHelpRuns(t *testing.T) {
	t.Parallel()
	help := filepath.Join(scenario.ShortDir(t), "help")
	all, err := pages.Examples(t.Context(), filepath.Join(scenario.Bin, "garrison"))
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join("testdata", "*.sh"))
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, os.Mkdir(help, 0o700))
	var others []string
	named := namedIn(t, scripts)
	for command, lines := range all {
		if !named[command] {
			others = append(others, command)
		}
		write(t, filepath.Join(help, command), lines)
	}
	slices.Sort(others)
	write(t, filepath.Join(help, ".rest"), others)
	t.Run("scripts", func(t *testing.T) {
		for _, file := range scripts {
			if filepath.Base(file) != library {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".sh"), func(t *testing.T) {
					t.Parallel()
					session(t, file, help)
				})
			}
		}
	})
}

// quoted are the commands of a line of a script that runs the examples of some.
var quoted = regexp.MustCompile(`'([a-z -]+)'`)

// namedIn returns the commands that scripts name.
func namedIn(t *testing.T, scripts []string) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "examples "); ok {
				for _, m := range quoted.FindAllStringSubmatch(list, -1) {
					named[m[1]] = true
				}
			}
		}
	}
	return named
}

func write(t *testing.T, file string, lines []string) {
	t.Helper()
	scenario.Must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// session runs a script on a terminal on which each question is answered with yes.
func session(t *testing.T, script, help string) {
	f := scenario.Simulated(t, rig.Options{Lobby: true})
	f.Garrisond.AddArgs("--debug-socket", filepath.Join(f.Dir, "debug"), "--concurrency", "2")
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(f.Dir, "work")
	scenario.Must(t, os.Mkdir(work, 0o700))
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	keyboard, terminal := scenario.Terminal(t, 24, 200)
	if _, err := keyboard.WriteString(strings.Repeat("y\n", 500)); err != nil {
		t.Fatal(err)
	}
	ctx := scenario.Within(t, 4*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", "-c", `. "$0" && . "$1" && finish`, filepath.Join(here, library),
		filepath.Join(here, filepath.Base(script)))
	cmd.Dir = work
	cmd.Env = []string{
		"PATH=" + scenario.Bin + ":" + os.Getenv("PATH"), "HOME=" + f.Dir, "TMPDIR=" + f.Dir, "HELP=" + help,
		"W=" + f.Dir, "BIN=" + scenario.Bin, "DATA=" + f.DataDir(), "BUS=" + f.URL(), "PORT=" + scenario.FreePort(t),
		"GARRISON_CONTEXT=" + f.ContextFile(),
	}
	said, err := os.Create(filepath.Join(f.Dir, "session.out"))
	scenario.Must(t, err)
	defer func() { _ = said.Close() }()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	left, below := rig.ProcessesBelow(f.Dir)
	if below != nil {
		t.Error(below)
	}
	for _, pid := range left {
		if pid != f.Garrisond.Pid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err != nil {
		out, _ := os.ReadFile(said.Name())
		t.Errorf("%s: %v\n%s", script, err, out)
	}
}
