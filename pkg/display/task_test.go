package display_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestTheReasonOfALateSuccessIsShownOnce(t *testing.T) {
	late := &taskv1.Task{
		State: taskv1.State_STATE_EXPIRED, Reported: taskv1.State_STATE_SUCCEEDED, Outcome: &taskv1.Outcome{},
		Reason: "its deadline passed; its server said later that it succeeded",
	}
	if got := display.TaskReason(late); got != late.Reason {
		t.Errorf("it shows %q, want %q", got, late.Reason)
	}
}

// A failure is followed by what the agent said of it: one line, without what steers a terminal, of a bounded length.
func TestTheTellingLineOfAFailedAgentIsShort(t *testing.T) {
	for tail, want := range map[string]string{
		"":                                   "",
		"starting\nunknown flag -bogus\n\n":  "unknown flag -bogus",
		"one\r\n\x1b[31mred\x07\ttext \x1b[": "[31mred text [",
		strings.Repeat("é", 200):             strings.Repeat("é", 98) + "…",
	} {
		if have := tellingLine(tail); have != want || len(have) > 200 {
			t.Errorf("%q: have %q, want %q", tail, have, want)
		}
	}
}

// What programs of many kinds print when they do not start, as they print it.
func TestTheTellingLineIsTheOneThatNamesTheCause(t *testing.T) {
	for name, c := range map[string]struct{ tail, want string }{
		"Go's flags": {
			"flag provided but not defined: -colour\nUsage of beacon:\n  -listen string\n" +
				"    \taddress (default \":80\")\n  -log-error file\n    \twhere error: lines go\n",
			"flag provided but not defined: -colour"},
		"a Go panic": {
			"level=info msg=started\npanic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:\n" +
				"main.main()\n\t/src/main.go:7 +0x1d\nexit status 2\n",
			"panic: runtime error: index out of range [3]"},
		"kingpin": {"node_exporter: error: unknown long flag '--bogus', try --help\n",
			"node_exporter: error: unknown long flag '--bogus', try --help"},
		"argparse": {"usage: tool [-h]\ntool: error: unrecognized arguments: --bogus\n\nSee the manual\n",
			"tool: error: unrecognized arguments: --bogus"},
		"Python": {"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n" +
			"    raise ValueError('no')\nValueError: no\n[cleaning up]\n", "ValueError: no"},
		"Java": {"Exception in thread \"main\" java.lang.IllegalStateException: closed\n\tat Main.main(Main.java:3)\n" +
			"Caused by: java.io.IOException: disk gone\n\tat Main.open(Main.java:9)\n\t... 1 more\n",
			"Caused by: java.io.IOException: disk gone"},
		"Rust": {"thread 'main' panicked at src/main.rs:2:\nnote: run with `RUST_BACKTRACE=1`\n",
			"thread 'main' panicked at src/main.rs:2:"},
		"logfmt": {"level=error msg=\"bind\"\nlevel=info msg=\"shutting down\"\n",
			`level=error msg="bind"`},
		"JSON": {`{"level":"fatal","message":"no config"}` + "\n" + `{"level":"info","message":"bye"}` + "\n",
			`{"level":"fatal","message":"no config"}`},
		"nginx": {"nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)\nbye\n",
			"nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)"},
		"the last": {"ERROR first\nERROR second\nstopping\n", "ERROR second"},
		"no cause": {"starting with 0 errors\nasked to exit at once\n", "asked to exit at once"},
		"a shell": {"/etc/x: line 3: cannot create /x: Permission denied\ndone\n",
			"/etc/x: line 3: cannot create /x: Permission denied"},
	} {
		if have := tellingLine(c.tail); have != c.want {
			t.Errorf("%s: have %q, want %q", name, have, c.want)
		}
	}
}

func tellingLine(tail string) string {
	return display.TellingLine(&taskv1.Task{Outcome: &taskv1.Outcome{LogTail: tail}})
}

func TestTheTellingLinesOfBothVersionsAreShown(t *testing.T) {
	for tail, want := range map[string]string{
		"busy\ncannot start\n" + task.OldOutput + "format 2": "cannot start; the old version: format 2",
		task.OldOutput + "format 2":                          "the old version: format 2",
	} {
		if have := tellingLine(tail); have != want {
			t.Errorf("%q: %q, want %q", tail, have, want)
		}
	}
}
