package healthcheck_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// script returns a check that runs a shell script in a directory of its own.
func script(t *testing.T, text string) *healthcheck.Exec {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "check")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &healthcheck.Exec{Path: path, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "WHERE=" + dir}}
}

func TestAProgramPassesWithStatusZeroAndElseReturnsItsOutput(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"passes":                 {`test "$WHERE" = "$PWD"`, ""},
		"fails":                  {"echo out; echo err >&2; exit 3", `exit status 3 and said "out\nerr"`},
		"fails in silence":       {"exit 4", "exit status 4"},
		"is killed":              {"kill -9 $$", "signal: killed"},
		"floods":                 {"head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last; exit 1", "xxx\\nlast\""},
		"passes leaving a child": {"sleep 60 & exit 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := healthcheck.Spec{Exec: script(t, c.text)}.Once(t.Context())
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1500):
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestAProgramThatCannotBeStartedDoesNotPass(t *testing.T) {
	missing := &healthcheck.Exec{Path: filepath.Join(t.TempDir(), "none")}
	if err := (healthcheck.Spec{Exec: missing}).Once(t.Context()); err == nil {
		t.Error("it passed")
	}
}

// alive reports whether the process runs whose id a script wrote to a file.
func alive(t *testing.T, path string) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" { // the shell makes the file before it writes; /proc/stat is always there
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestAProgramThatHangsIsKilledWithItsGroupWhenItsTryEnds(t *testing.T) {
	e := script(t, "trap '' TERM; sleep 600 & echo $! > child; echo $$ > self; wait")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- healthcheck.Spec{Exec: e}.Once(ctx) }()
	child, self := filepath.Join(e.Dir, "child"), filepath.Join(e.Dir, "self")
	polltest.Eventually(t, "both run", func() bool { return alive(t, child) && alive(t, self) })
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it passed")
		}
	case <-time.After(time.Minute):
		t.Fatal("its try has not ended")
	}
	polltest.Eventually(t, "both are gone", func() bool { return !alive(t, child) && !alive(t, self) })
}

func TestAProcessThatAProgramLeftInAnotherSessionEndsWithTheTry(t *testing.T) {
	e := script(
		t,
		`(setsid sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' &)
		while [ ! -s child ]; do sleep 0.01; done`,
	)
	if err := (healthcheck.Spec{Exec: e}).Once(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(e.Dir, "child")); err != nil || alive(t, filepath.Join(e.Dir, "child")) {
		t.Errorf("it runs, or never did: %v", err)
	}
}

// A process that waits for a disk cannot be killed, and is no evidence about the agent.
func TestAProgramPassesThoughItsLeftoverCannotBeKilled(t *testing.T) {
	t.Parallel()
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	disk := powercut.New(t, 16<<20)
	disk.Freeze(t)
	waits := `(setsid sh -c 'echo $$ > child; echo x > "$0"' ` + filepath.Join(disk.Mount,
		"file") + ` &); while ! grep -q ") D " /proc/$(cat child)/stat; do sleep 0.01; done; exit `
	passes := script(t, waits+"0")
	if err := (healthcheck.Spec{Exec: passes}).Once(t.Context()); err != nil ||
		!alive(t, filepath.Join(passes.Dir, "child")) {
		t.Errorf("it runs: %v: %v", alive(t, filepath.Join(passes.Dir, "child")), err)
	}
	fails := script(t, waits+"3")
	if err := (healthcheck.Spec{Exec: fails}).Once(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "did not end within") {
		t.Errorf("got %v, want its status and the leftover", err)
	}
}

// A probe that itself waits for a disk does not block the caller, who has other agents to check, and is not started a
// second time beside the first.
func TestAProgramThatCannotBeKilledBlocksNoCaller(t *testing.T) {
	t.Parallel()
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	disk := powercut.New(t, 16<<20)
	disk.Freeze(t)
	e := script(t, `echo $$ > self; echo once >> starts; echo x > `+filepath.Join(disk.Mount, "file"))
	t.Cleanup(func() { disk.Thaw() })
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- healthcheck.Spec{Exec: e}.Once(ctx) }()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("it passed")
			}
		case <-time.After(time.Minute):
			t.Fatal("its try has not ended")
		}
	}
	if !alive(t, filepath.Join(e.Dir, "self")) {
		t.Error("it did not hang")
	}
	if starts, err := os.ReadFile(filepath.Join(e.Dir, "starts")); err != nil || string(starts) != "once\n" {
		t.Errorf("it was started %q: %v", starts, err)
	}
	disk.Thaw()
	polltest.Eventually(t, "it can be tried again", func() bool {
		return healthcheck.Spec{Exec: e}.Once(t.Context()) == nil
	})
}

func TestAnExecProbeIsTriedUntilItPassesAndWatchedInTheSoak(t *testing.T) {
	t.Parallel()
	counting := func(passes string) *healthcheck.Exec {
		return script(t,
			`n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; test `+passes+` || { echo "try $n"; exit 1; }`)
	}
	later := counting("$n -ge 3")
	if err := healthcheck.Await(t.Context(), healthcheck.Spec{Exec: later, Soak: soak}, nil); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(filepath.Join(later.Dir, "n")); strings.TrimSpace(string(data)) < strconv.Itoa(4) {
		t.Errorf("it was tried %s times, want it in the soak too", data)
	}
	err := healthcheck.Await(t.Context(), healthcheck.Spec{Exec: counting("$n -lt 2"), Soak: soak}, nil)
	if fault.RefusalOf(err).GetCode() != code.Unstable {
		t.Errorf("got %v, want %s", err, code.Unstable)
	}
	never := healthcheck.Spec{Exec: counting("$n -lt 0"), Soak: soak, Timeout: time.Second}
	err = healthcheck.Await(t.Context(), never, nil)
	if r := fault.RefusalOf(err); r.GetCode() != code.NotReady ||
		!strings.Contains(r.GetMessage(), "said \"try ") {
		t.Errorf("got %v, want %s and its output", err, code.NotReady)
	}
}

func TestAProbeThatHangsDoesNotHideThatTheAgentEnded(t *testing.T) {
	t.Parallel()
	exited := make(chan struct{})
	e := script(t, "echo $$ > self; exec sleep 600")
	ended := make(chan error, 1)
	go func() { ended <- healthcheck.Await(t.Context(), healthcheck.Spec{Exec: e, Soak: soak}, exited) }()
	polltest.Eventually(t, "the probe hangs", func() bool { return alive(t, filepath.Join(e.Dir, "self")) })
	close(exited)
	select {
	case err := <-ended:
		if fault.RefusalOf(err).GetCode() != code.Exited {
			t.Errorf("got %v, want %s", err, code.Exited)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits for the probe")
	}
}
