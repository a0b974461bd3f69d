package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// freeText are the flags whose texts mean what they say, or are read where they are used.
var freeText = []string{"context", "description", "reason", "token-file", "dir", "on", "not", "columns", "sort", "output", "version", "os", "arch"}

// A number, a time, a name or a word that pflag reads by itself would let nonsense in.
func TestEveryFlagRefusesWhatMeansNothing(t *testing.T) {
	n := 0
	everyCommand((&session{}).root(), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if kind != (flagValue{}).Type() && kind != "bool" && !slices.Contains(freeText, f.Name) {
				t.Errorf("%s --%s is a %s that nothing checks", c.CommandPath(), f.Name, kind)
			}
			n++
		})
	})
	if n < 50 {
		t.Errorf("%d flags were looked at", n)
	}
}

func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

// Nothing is asked: the sessions have no bus to ask.
func TestAWrongValueIsAWrongCommandLineThatSaysWhatIsAllowed(t *testing.T) {
	for line, want := range map[string]string{
		"install a --on all --timeout -3s":         `--timeout: "-3s" is not a time above zero, such as 90s`,
		"up a --on all --timeout 0":                "time above zero",
		"configure a --on all --timeout soon":      "time above zero",
		"remove a --on all --timeout 3":            "time above zero",
		"task wait x --timeout -1h":                "time above zero",
		"server enroll a --valid -1h":              "time above zero",
		"server enroll a --valid 721h":             "720h0m0s is the most",
		"server list --limit -1":                   `--limit: "-1" is not a whole number from 1 on, or all`,
		"server list --limit 0":                    "from 1 on",
		"task list --limit 1.5":                    "from 1 on",
		"events --limit 99999999999":               "from 1 on",
		"agent create a --tier -1":                 "from 0 to 4294967295",
		"agent create a --needs b,,c":              "empty part",
		"agent create a --app X":                   "is not a name",
		"agent create a --kind nothing":            "want daemon, oneshot",
		"agent create a --metadata level":          "is not NAME=VALUE",
		"agent update a --unset 2":                 "is not the name of a value",
		"env create a --channel ''":                "is not a name",
		"server list --env Prod":                   "is not a name",
		"server list --label =a":                   "is not LABEL=VALUE",
		"server list --life undead":                "want invited, alive",
		"server label a --env a_b":                 "is not a name",
		"task list --server ''":                    "is not a host name",
		"task list --intent 7":                     "is not a UUID",
		"task list --state ''":                     "want queued, assigned",
		"instance list --image x":                  "is not a UUID",
		"events --since -10m":                      "how long ago, such as 10m",
		"events --since yesterday":                 "2026-01-31T12:00:00Z",
		"events --cursor 0":                        "whole number from 1 on",
		"events --noun planet":                     "want application, environment",
		"events --id ''":                           "which id?",
		"server list --cursor ''":                  "which cursor?",
		"up --all --exclude A --on all":            "is not a name",
		"install a --on Web_1":                     "is not a host name",
		"install a --on env=Prod":                  "is not a name",
		"configure a --on all --set a=1 --set":     "needs an argument",
		"configure a --on all --set a=1 --unset a": "--set and --unset both name a",
		"install a --on all --detach=perhaps":      "neither true nor false",
		"install a --on all --detatch":             "Nearest: --detach",
		"server list -o xml":                       "want table, wide, json",
	} {
		t.Run(line, func(t *testing.T) {
			var said strings.Builder
			s := &session{in: strings.NewReader(""), out: &said, err: &said, getenv: func(string) string { return "" }, now: time.Now}
			words := strings.Fields(line)
			for i, w := range words {
				words[i] = strings.Trim(w, "'")
			}
			if code := s.run(context.Background(), words); code != exitUsage || !strings.Contains(said.String(), want) {
				t.Errorf("exit code %d, want %d and %q; it said:\n%s", code, exitUsage, want, &said)
			}
		})
	}
}
