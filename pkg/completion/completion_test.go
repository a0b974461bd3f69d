package completion_test

import (
	"flag"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/completion"
	"github.com/garrison-fleet/garrison/pkg/config"
)

func program() completion.Program {
	return completion.Program{
		Name: "guard", Commands: []string{"run", "journal show", "journal cut", "restore", "completion"},
		Default: "run",
		Flags: func(command string) *flag.FlagSet {
			fs := flag.NewFlagSet(command, flag.ContinueOnError)
			var text string
			config.Checked(fs, &text, "root", "", "the data `DIRECTORY`", config.Text)
			if command == "run" {
				config.Checked(fs, &text, "log-level", "info", "how much", config.Level)
				fs.Bool("lobby", false, "")
			}
			return fs
		},
		Files: func(command string) bool { return command == "restore" },
	}
}

func TestEachPlaceOfACommandLineIsCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"":                         "run journal restore completion",
		"j":                        "journal",
		"journal ":                 "show cut",
		"journal show ":            "--root --help",
		"run --l":                  "--lobby --log-level",
		"--lo":                     "--lobby --log-level",
		"run --log-level ":         "debug info warn error",
		"run --log-level w":        "warn",
		"run -log-level w":         "warn",
		"run --log-level=w":        "--log-level=warn",
		"run --log-level = w":      "warn",
		"run --log-level =":        "debug info warn error",
		"--log-level e":            "error",
		"run --lobby --log-level ": "debug info warn error",
		"run --lobby ":             "--lobby --log-level --root --help",
		"run --root ":              ":files",
		"run --root=/et":           ":files",
		"restore ":                 ":files",
		"restore --":               "--root --help",
		"nosuch ":                  "",
		"completion ":              "bash zsh fish --help",
		"completion z":             "zsh",
		"completion zsh ":          "",
		"run --nosuch ":            "--lobby --log-level --root --help",
	} {
		var b strings.Builder
		program().Print(&b, strings.Split(line, " "))
		if have := strings.Join(strings.Fields(b.String()), " "); have != want {
			t.Errorf("%q: have %q, want %q", line, have, want)
		}
	}
}

// The shells themselves parse the scripts, those that this machine has.
func TestTheScriptsAreOfTheirShells(t *testing.T) {
	for _, shell := range completion.Shells {
		text, err := completion.Script("guard", shell)
		if err != nil || strings.Contains(text, "PROGRAM") || !strings.Contains(text, completion.Ask) {
			t.Errorf("%s: %v\n%s", shell, err, text)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		check := exec.CommandContext(t.Context(), path, "-n")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	if _, err := completion.Script("guard", "tcsh"); err == nil || !strings.Contains(err.Error(), "bash, zsh, fish") {
		t.Errorf("tcsh: %v", err)
	}
}

func TestBashCompletesWithTheScript(t *testing.T) {
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	text, err := completion.Script("guard", "bash")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), path, "-c", text+`
guard() { printf '%s\n' "asked $#" "$@"; }
COMP_WORDS=(guard run --log-level w); COMP_CWORD=3
_guard_complete
printf '%s\n' "${COMPREPLY[@]}"`)
	out, err := run.CombinedOutput()
	if have := strings.Fields(string(out)); err != nil ||
		!slices.Equal(have, []string{"asked", "4", "__complete", "run", "--log-level", "w"}) {
		t.Errorf("%v: %s", err, out)
	}
}
